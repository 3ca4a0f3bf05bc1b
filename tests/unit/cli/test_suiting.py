"""Which questions models that are not embedded are asked, where nobody chooses a profile."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from swarm.cli import node as commands
from swarm.cli import up
from swarm.cli.before_start import suited_settings
from swarm.cli.main import run as swarm
from swarm.cli.run_flags import UP_DEFAULTS, NodeFlags, RunFlags
from swarm.config import Settings
from swarm.errors import ExperimentError
from swarm.wire import keys
from tests.layout import Layout
from tests.unit.cli.test_joining import begin as begin_in

REAL = "openai-community/gpt2"


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SWARM_PATH", str(tmp_path))
    monkeypatch.setattr(commands, "make_ready", lambda _: None)
    return tmp_path


def of_up(**flags: Any) -> Settings:
    return up._planned_swarm(2, RunFlags(**flags), in_process=False, no_coordinator=False).swarm.settings


def begin(place: Path, profile: str, *, rounds: bool = True, **more: Any) -> None:
    """An experiment `demo` of that profile."""
    layout = Layout(place, "demo")
    begin_in(layout, Settings(profile=profile, max_rounds=9), **more)  # type: ignore[arg-type]
    if rounds:
        layout.root.joinpath(keys.ROLLOUTS, "round_0").mkdir(parents=True, exist_ok=True)


def test_up_asks_a_real_model_the_papers_questions_and_says_why(capsys: pytest.CaptureFixture[str]) -> None:
    assert of_up(model=REAL).profile == "paper-2"
    assert "profile paper-2, because openai-community/gpt2 is not an embedded model" in capsys.readouterr().err


@pytest.mark.parametrize("model", [None, "tiny-2-gpt2", f"tiny-2-qwen2,{REAL}"])
def test_where_one_model_is_embedded_the_questions_are_those_it_knows(
    model: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert of_up(model=model).profile == "tiny-3"
    assert "profile" not in capsys.readouterr().err


def test_a_profile_that_anybody_chose_counts(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert of_up(model=REAL, profile="tiny-2").profile == "tiny-2"
    assert of_up(model=REAL, preset="paper").profile == "rl-swarm"
    (place / "s.toml").write_text('profile = "tiny"')
    assert of_up(model=REAL, config=str(place / "s.toml")).profile == "tiny"
    monkeypatch.setenv("SWARM_PROFILE", "tiny-2")
    assert of_up(model=REAL).profile == "tiny-2"
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("profile", ["tiny-2", "rl-swarm"])
def test_an_experiment_that_goes_on_keeps_its_profile(
    place: Path, profile: str, capsys: pytest.CaptureFixture[str]
) -> None:
    begin(place, profile)
    assert of_up(model=REAL, experiment="demo").profile == profile
    assert f"profile {profile}, as the experiment demo has it" in capsys.readouterr().err


@pytest.mark.parametrize(("made", "asked"), [("tiny-2", "tiny-2"), ("tiny", "tiny"), ("paper", "tiny-3")])
def test_an_experiment_of_an_earlier_version_goes_on_with_its_toy_questions(place: Path, made: str, asked: str) -> None:
    begin(place, made)
    assert of_up(experiment="demo").profile == asked, "and one of real questions is refused to a toy model"
    assert started("coordinator", external=4).profile == asked


def test_a_start_that_came_to_nothing_binds_nobody(place: Path) -> None:
    begin(place, "tiny-2", rounds=False)
    assert of_up(model=REAL, experiment="demo").profile == "paper-2"


def test_the_record_of_a_start_says_where_the_profile_came_from(capsys: pytest.CaptureFixture[str]) -> None:
    planned = up._planned_swarm(2, RunFlags(model=REAL), in_process=False, no_coordinator=False)
    assert planned.base["profile"] == ("paper-2", "the model, which is not embedded")
    assert swarm(["settings", "profile", "--model", REAL]) == 0
    assert "paper-2 (from: model, which is not embedded)" in capsys.readouterr().out


def started(role: str, **flags: Any) -> Settings:
    return commands._started(["swarm", "node"], NodeFlags(role=role, experiment="demo", **flags)).settings


def test_a_coordinator_that_begins_with_real_models_asks_the_papers_questions_and_who_joins_takes_the_experiments(
    place: Path,
) -> None:
    assert started("coordinator", model=REAL, external=4).profile == "paper-2"
    assert started("coordinator", external=4).profile == "tiny-3"
    begin(place, "rl-swarm", rounds=False)
    assert started("worker", model=REAL).profile == "rl-swarm"
    begin(place, "rl-swarm")
    assert started("coordinator", model=REAL, external=4).profile == "rl-swarm"


@pytest.mark.parametrize(
    ("profile", "flags", "said"),
    [
        (
            "tiny-2",
            {"model": REAL},
            ["profile tiny-2", REAL, "those of paper-2", "--profile paper-2", "--profile tiny-2"],
        ),
        ("tiny-2", {"model": REAL, "profile": "paper"}, ["--profile tiny-2"]),
        ("tiny", {"model": REAL, "role": "generator"}, ["--profile tiny "]),
        ("paper", {}, ["profile paper", "tiny-2-qwen2", "--model", "--profile paper"]),
        ("rl-swarm", {"model": "tiny-gpt2"}, ["those of tiny:"]),
    ],
)
@pytest.mark.parametrize("word", ["node", "join"])
def test_a_model_that_would_be_asked_what_was_made_for_others_is_refused_with_the_way_out(
    place: Path, profile: str, flags: dict[str, str], said: list[str], word: str
) -> None:
    begin(place, profile)
    given = {"role": "worker", **flags}
    join = partial(commands.joined_as, given["role"], ["swarm", "join"])
    start = partial(started, **given) if word == "node" else partial(join, NodeFlags(experiment="demo", **flags))
    with pytest.raises(ExperimentError) as refused:
        start()
    assert all(part in f"{refused.value} " for part in said), refused.value


@pytest.mark.parametrize("more", [{}, {"task_table": {"sums": {"gym": "chain_sum", "max_terms": 3, "scoring": 2}}}])
def test_who_names_the_experiments_profile_means_it_and_tasks_of_ones_own_are_asked_of_any_model(
    place: Path, monkeypatch: pytest.MonkeyPatch, more: dict[str, Any]
) -> None:
    begin(place, "tiny-2", **more)
    assert started("worker", model=REAL, profile=None if more else "tiny-2").profile == "tiny-2"
    if not more:
        monkeypatch.setenv("SWARM_PROFILE", "tiny-2")
    assert started("worker", model=REAL).profile == "tiny-2"


def test_who_begins_an_experiment_without_a_word_about_models_hears_for_whom_it_is(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for flags, said in (({}, True), ({"model": "tiny-2-gpt2"}, False), ({"profile": "tiny-2"}, False)):
        started("coordinator", external=4, **flags)
        assert ("for the models of the package" in capsys.readouterr().err) == said


def test_a_worker_that_begins_chooses_too_and_one_that_somebody_else_started_takes_what_it_is_given(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SWARM_CLOCK", "own")
    assert started("worker", model=REAL).profile == "paper-2"
    monkeypatch.setattr(commands, "asked_in", lambda _: commands.StartRequest("swarm up", {}))
    assert started("worker", model=REAL).profile == "tiny-3"


def test_who_only_asks_a_model_asks_what_a_run_would(monkeypatch: pytest.MonkeyPatch) -> None:
    assert suited_settings(RunFlags(model=REAL), own={"tasks": ("bf",)}).profile == "paper-2"
    monkeypatch.setenv("MODEL_NAME", REAL)
    assert suited_settings(None).profile == "paper-2"


def test_the_demonstration_asks_embedded_models_what_they_learn_in_a_minute(place: Path) -> None:
    """Whoever chooses model, profile or tasks is asked what belongs to them; a run that goes on stays what it was."""
    shown = UP_DEFAULTS["tasks"]
    assert of_up().tasks == of_up(model="tiny-2-gpt2,tiny-2-qwen2").tasks == shown
    assert of_up(tasks="bf").tasks == ("bf",)
    for chosen in ({"model": REAL}, {"model": f"tiny-2-qwen2,{REAL}"}, {"profile": "tiny-3"}, {"preset": "paper"}):
        assert of_up(**chosen).tasks is None
    for kept in (None, ["bf"]):
        begin(place, "tiny-3", tasks=kept)
        assert of_up(experiment="demo").tasks == (kept and tuple(kept))
