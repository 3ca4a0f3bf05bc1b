"""How long a round takes is said before it is over, with what to type where the clock is too short."""

from __future__ import annotations

from swarm.records.round_forecast import RoundForecast, slowest


def test_a_round_that_is_too_long_is_said_with_what_to_type() -> None:
    found = RoundForecast(answering=200.0, learning=78.0, interval=60.0)
    assert not found.fits
    assert "about 278 s" in found.line
    assert "only 60 s" in found.line
    assert "--round-interval 556 (COORDINATOR_ROUND_INTERVAL)" in found.line


def test_who_keeps_an_own_clock_has_all_the_time() -> None:
    found = RoundForecast(answering=999.0, learning=None, interval=0.0)
    assert found.fits
    assert found.line == "a round takes about 999 s on this machine (999 s to answer, the update not measured)"


def test_answers_that_earned_nothing_come_with_the_command_that_shows_one() -> None:
    models = ["./my model"]
    assert RoundForecast(1.0, 1.0, 60.0, 32, 3).earned_line(models) == "3 of 32 answers earned a reward"
    none = RoundForecast(1.0, 1.0, 60.0, 32, 0, "bf").earned_line(models)
    assert none == "none of 32 answers earned a reward; `swarm ask --model './my model' --task bf` shows one"
    assert RoundForecast(1.0, 1.0, 60.0).earned_line(models) == ""


def test_of_several_nodes_the_slowest_counts_with_the_answers_of_all() -> None:
    found = slowest([RoundForecast(1.0, 1.0, 60.0, 32, 1), RoundForecast(5.0, None, 60.0, 32, 2)])
    assert (found.seconds, found.answers, found.earned) == (5.0, 64, 3)


def test_no_number_of_a_stranger_fills_the_screen() -> None:
    assert len(RoundForecast(1e300, 1e300, 1e308).line) < 400
