"""What a run learned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
import pytest

from swarm.records.history import NodeHistory
from swarm.views.summary import Summary, render
from swarm.views.summary import summarise as summarise_sums
from swarm.wire.messages import MetricsRow
from tests.layout import Layout
from tests.unit.views.factories import ROUND_SECONDS, make_row

LAYOUT = Layout(Path("/nowhere"), "exp")


def make_rows(node: str, rewards: list[float], **fields: object) -> list[MetricsRow]:
    return [make_row(LAYOUT, node, number, my_reward=reward, **fields) for number, reward in enumerate(rewards)]


def summarise(rows: Mapping[str, Sequence[MetricsRow]]) -> Summary:
    """Returns the summary of node -> its rows as it wrote them."""
    sums = {node: NodeHistory() for node in rows}
    for node, of_node in rows.items():
        sums[node].observe([msgspec.json.encode(row) for row in of_node])
    return summarise_sums(sums)


def test_first_and_last_ten_rounds_are_compared() -> None:
    summary = summarise({"a": make_rows("a", [0.1] * 10 + [0.9] * 5 + [0.2] * 10)})
    assert summary.window == 10
    assert summary.reward.first == pytest.approx(0.1)
    assert summary.reward.last == pytest.approx(0.2)
    assert summary.ratio == pytest.approx(2.0)


def test_the_windows_of_a_short_run_do_not_overlap() -> None:
    summary = summarise({"a": make_rows("a", [0.1, 0.2, 0.3, 0.4, 0.5])})
    assert (summary.window, summary.reward.first, summary.reward.last) == (2, pytest.approx(0.15), pytest.approx(0.45))


def test_nodes_are_averaged_within_a_round_before_rounds_are() -> None:
    late = make_rows("b", [0.0, 0.5])[1:]  # b took part in round 1 alone
    summary = summarise({"a": make_rows("a", [0.3, 0.1, 0.3, 0.3]), "b": late})
    assert summary.reward.first == pytest.approx((0.3 + (0.1 + 0.5) / 2) / 2)


def test_rows_that_measure_nothing_are_in_no_mean() -> None:
    """An evaluator's, and those of a person without answers; a worker's round without questions is one of reward 0."""
    idle = make_rows("judy", [0.0, 0.0], role="evaluator", answer_tag_rate=0.0)
    sometimes = [
        *make_rows("me", [0.0], role="person"),
        *make_rows("me", [0.0, 0.9], role="person", local_groups=1)[1:],
    ]
    summary = summarise({"a": make_rows("a", [0.3, 0.5], answer_tag_rate=0.5), "judy": idle, "me": sometimes})
    assert (summary.reward.first, summary.reward.last) == (pytest.approx(0.3), pytest.approx(0.7))
    of_judy = next(node for node in summary.nodes if node.node == "judy")
    assert (of_judy.rounds, of_judy.reward.last) == (2, None)
    assert "judy" in render(summary)
    workers = summarise({"a": make_rows("a", [0.4, 0.4]), "b": make_rows("b", [0.0, 0.0], local_groups=0)})
    assert workers.reward.first == pytest.approx(0.2)


def test_a_round_written_twice_counts_once_and_the_last_row_wins() -> None:
    rows = [
        make_row(LAYOUT, "a", 0, my_reward=0.2, external_groups=3),
        make_row(LAYOUT, "a", 0, my_reward=0.4, external_groups=1),
        make_row(LAYOUT, "a", 1, my_reward=0.1, external_groups=2),
        make_row(LAYOUT, "a", 1, my_reward=0.1, external_groups=0),
    ]
    summary = summarise({"a": rows})
    assert (summary.rounds, summary.cumulative_reward) == (2, pytest.approx(0.5))
    assert summary.external_groups == 1


def test_a_run_that_goes_back_over_many_rounds_ends_with_what_was_written_last() -> None:
    first = make_rows("a", [0.2] * 40, task_rewards={"bf": 0.2})
    again = make_rows("a", [0.6] * 40, task_rewards={"bf": 0.6})[15:]
    summary = summarise({"a": [*first, *again]})
    assert summary.rounds == 40
    assert (summary.reward.first, summary.reward.last) == (pytest.approx(0.2), pytest.approx(0.6))
    assert summary.tasks["bf"].last == pytest.approx(0.6)
    assert summary.cumulative_reward == pytest.approx(15 * 0.2 + 25 * 0.6)


def test_a_node_that_took_part_in_the_middle_alone_is_in_neither_end() -> None:
    middle = make_rows("b", [0.9] * 30, task_rewards={"bf": 0.9})[15:20]
    summary = summarise({"a": make_rows("a", [0.1] * 40), "b": middle})
    assert (summary.reward.first, summary.reward.last) == (pytest.approx(0.1), pytest.approx(0.1))
    assert summary.nodes[1].reward.last is None
    assert summary.tasks["bf"].first is None


def test_tasks_are_averaged_over_the_rounds_they_came_up_in() -> None:
    rows = [
        make_row(LAYOUT, "a", 0, task_rewards={"bf": 0.2}),
        make_row(LAYOUT, "a", 1, task_rewards={}),
        make_row(LAYOUT, "a", 2, task_rewards={"bf": 0.6, "arc_1d": 0.1}),
        make_row(LAYOUT, "a", 3, task_rewards={"bf": 0.4}),
    ]
    tasks = summarise({"a": rows}).tasks
    assert (tasks["bf"].first, tasks["bf"].last) == (pytest.approx(0.2), pytest.approx(0.5))
    assert (tasks["arc_1d"].first, tasks["arc_1d"].last) == (None, pytest.approx(0.1))


def test_format_and_content_are_told_apart() -> None:
    """a tags a tenth at first and all at last, b nothing and half; what they tag is worth 0.5 and 0.8."""
    of_a = [make_row(LAYOUT, "a", n, my_reward=0.05 + n * 0.75, answer_tag_rate=0.1 + n * 0.9) for n in (0, 1)]
    of_b = [make_row(LAYOUT, "b", n, my_reward=n * 0.4, answer_tag_rate=n * 0.5) for n in (0, 1)]
    summary = summarise({"a": of_a, "b": of_b})
    assert (summary.tagged.first, summary.tagged.last) == (pytest.approx(0.05), pytest.approx(0.75))
    assert (summary.given_tagged.first, summary.given_tagged.last) == (pytest.approx(0.5), pytest.approx(0.8))
    shown = [line.split()[-3:] for line in render(summary).splitlines() if line.startswith(("tagged", "reward given"))]
    assert shown == [["0.050", "0.750", "15.00x"], ["0.500", "0.800", "1.60x"]]


def test_a_run_that_tagged_nothing_has_no_reward_given_tagged() -> None:
    summary = summarise({"a": make_rows("a", [0.0, 0.0], task_rewards={"bf": 0.0}, task_tag_rates={"bf": 0.0})})
    assert summary.given_tagged.first is None
    assert summary.task_given_tagged["bf"].last is None
    assert summary.task_tagged["bf"].last == 0.0
    (shown,) = (line for line in render(summary).splitlines() if line.startswith("reward given tagged"))
    assert shown.split()[3:] == ["-", "-", "-"]


def test_each_task_has_its_own_format_and_content_and_rows_that_did_not_count_have_no_part() -> None:
    old = make_row(LAYOUT, "b", 0, task_rewards={"bf": 0.6})
    rows = [
        make_row(LAYOUT, "a", 0, task_rewards={"bf": 0.2}, task_tag_rates={"bf": 0.5}),
        make_row(LAYOUT, "a", 1, task_rewards={"bf": 0.3}, task_tag_rates={"bf": 1.0}),
    ]
    summary = summarise({"a": rows, "b": [old]})
    tagged, given = summary.task_tagged["bf"], summary.task_given_tagged["bf"]
    assert summary.tasks["bf"].first == pytest.approx(0.4)
    assert (tagged.first, tagged.last) == (0.5, 1.0)
    assert (given.first, given.last) == (pytest.approx(0.4), pytest.approx(0.3))


def jumped(rows: list[MetricsRow], seconds: float) -> list[MetricsRow]:
    """Measured waits, and a wall clock that jumps in the middle."""
    half = len(rows) // 2
    stamps = [row.timestamp + seconds * (place >= half) for place, row in enumerate(rows)]
    return [msgspec.structs.replace(row, timestamp=at, seconds_wait=0.5) for row, at in zip(rows, stamps, strict=True)]


@pytest.mark.parametrize("seconds", [0.0, 43_200.0, -43_200.0, 4e8])
def test_a_jump_of_the_clock_makes_no_run_longer_or_shorter_than_its_rounds(seconds: float) -> None:
    rows = {"a": jumped(make_rows("a", [0.1] * 88), seconds), "b": make_rows("b", [0.1] * 88)}
    least, most = 88 * ROUND_SECONDS, 88 * (ROUND_SECONDS + 0.5)
    assert least <= summarise(rows).duration_seconds <= most


def test_nothing_measured_is_said_so() -> None:
    assert "no node" in render(summarise({}))
    assert summarise({"a": make_rows("a", [0.0, 0.5])}).ratio is None


def test_the_text_fits_a_hundred_columns() -> None:
    rows = make_rows(
        "n" * 64,
        [0.1] * 4,
        model="an-organisation/" + "m" * 90,
        task_rewards={"t" * 60: 0.5},
        task_tag_rates={"t" * 60: 0.5},
        answer_tag_rate=0.5,
        external_by_model={f"model-{i}" * 4: 1000 for i in range(9)},
    )
    text = render(summarise({"n" * 64: rows}))
    assert max(map(len, text.splitlines())) <= 100
    assert "0.100" in text
