"""`swarm model push`, to a hub on loopback."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM

from swarm.cli.main import run
from swarm.cli.supervisor import ProgramBeside, programs_beside
from swarm.config import Settings
from swarm.errors import ConfigError, PushError
from swarm.plugins.hub import model_push
from swarm.plugins.hub.model_push import GRACE, PATIENCE
from swarm.policy.embedded import embedded_path
from swarm.store.run import Run
from tests.layout import Layout
from tests.plugins.hub.push_hub import PushHub
from tests.plugins.hub.test_hub_push import hub  # noqa: F401 - a fixture
from tests.unit.policy.test_lora import close
from tests.unit.policy.test_merging import IDS, saved_adapter
from tests.unit.views.factories import make_experiment, make_round, set_clock

Said = pytest.CaptureFixture[str]
Patch = pytest.MonkeyPatch

REPO = "lab/anna"
pytestmark = pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning")  # the client's own


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    layout = make_experiment(tmp_path / "here", rounds=3)
    save(layout, 3)
    return layout


def save(layout: Layout, rounds: int) -> Path:
    """A checkpoint of alice's."""
    model = layout.checkpoint(rounds, "alice") / "model"
    shutil.copytree(embedded_path("tiny-2-qwen2"), model)
    return model


def words(layout: Layout, *more: str) -> list[str]:
    where = ["--path", str(layout.path), "--experiment", layout.experiment]
    return ["model", "push", "alice", "--repo", REPO, *where, *more]


@torch.no_grad()
def logits(folder: Path) -> torch.Tensor:
    return AutoModelForCausalLM.from_pretrained(str(folder))(IDS).logits


def test_a_model_that_was_pushed_loads_with_transformers_and_gives_the_same_logits(
    hub: PushHub,  # noqa: F811
    layout: Layout,
    tmp_path: Path,
    capsys: Said,
) -> None:
    assert run(words(layout)) == 0
    assert f"pushed the model of alice after 3 rounds: {hub.endpoint}/{REPO}/commit/" in capsys.readouterr().out
    got = hub.save(REPO, tmp_path / "got")
    assert torch.equal(logits(got), logits(embedded_path("tiny-2-qwen2")))
    assert "How it learned" in (got / "README.md").read_text()
    assert hub.commits == [(REPO, "alice of exp after 3 rounds")]


@pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing:FutureWarning")  # which PEFT asks for
def test_an_adapter_that_was_pushed_loads_with_peft_and_merged_with_transformers(
    hub: PushHub,  # noqa: F811
    layout: Layout,
    tmp_path: Path,
) -> None:
    from peft import PeftModel  # here: its import takes four seconds

    model = layout.checkpoint(3, "alice") / "model"
    shutil.rmtree(model)
    folder, expected = saved_adapter("tiny-2-qwen2", tmp_path / "saved")
    folder.rename(model)
    assert run(words(layout)) == 0
    base = AutoModelForCausalLM.from_pretrained(str(embedded_path("tiny-2-qwen2")))
    with torch.no_grad():
        assert close(PeftModel.from_pretrained(base, str(hub.save(REPO, tmp_path / "got")))(IDS).logits, expected)
    assert run(words(layout, "--merged")) == 0
    assert "adapter_config.json" not in hub.repos[REPO]
    assert close(logits(hub.save(REPO, tmp_path / "whole")), expected)


# ── following ───────────────────────────────────────────────────────────────────────────────────────────────────────
class Days:
    """A clock that goes on by waiting alone, and what happens at each look."""

    def __init__(self, monkeypatch: Patch) -> None:
        self.now = 0.0
        self.pauses: list[float] = []
        self.pushed: list[int] = []
        self.failures: list[Exception] = []
        self.then: Iterator[object] = iter(())
        monkeypatch.setattr(model_push, "_wait", self._wait)
        monkeypatch.setattr(model_push, "time", self)
        monkeypatch.setattr(model_push._Pusher, "push", self._push)

    def monotonic(self) -> float:
        return self.now

    def _wait(self, seconds: float, _: object) -> None:
        self.now += seconds
        self.pauses.append(seconds)
        next(self.then, None)

    def _push(self, _: Run, rounds_done: int) -> None:
        if self.failures:
            raise self.failures.pop(0)
        self.pushed.append(rounds_done)


def test_a_run_that_goes_on_is_followed_and_its_last_model_pushed(tmp_path: Path, monkeypatch: Patch) -> None:
    layout, days = make_experiment(tmp_path / "here", rounds=3), Days(monkeypatch)
    shutil.rmtree(layout.checkpoints)
    set_clock(layout, 3, max_rounds=9, finished=False)

    def live() -> Iterator[None]:
        for rounds in (2, 3, 5, 6):
            layout.checkpoint(rounds, "alice").mkdir(parents=True)
            yield
        for number in range(3, 7):
            make_round(layout, "alice", number)
        set_clock(layout, 7, max_rounds=7, finished=True)
        yield  # it is finished, and alice has yet to save
        layout.checkpoint(7, "alice").mkdir(parents=True)

    days.then = live()
    assert run(words(layout, "--follow", "--every", "3")) == 0
    assert days.pushed == [3, 6, 7]
    assert days.now < GRACE


def test_a_node_that_never_saves_its_last_round_is_waited_for_a_while(layout: Layout, monkeypatch: Patch) -> None:
    days = Days(monkeypatch)
    make_round(layout, "alice", 3)
    assert run(words(layout, "--follow")) == 0
    assert days.pushed == [3]
    assert days.now == pytest.approx(GRACE, abs=5)


def test_failures_are_tried_again_after_pauses_that_double_up_to_a_bound_and_the_newest_model_is_pushed(
    layout: Layout, monkeypatch: Patch, capsys: Said
) -> None:
    days = Days(monkeypatch)
    set_clock(layout, 3, max_rounds=9, finished=False)
    days.failures = [PushError("the hub answers 500")] * 8

    def live() -> Iterator[object]:
        layout.checkpoint(6, "alice").mkdir(parents=True)
        yield from range(7)
        set_clock(layout, 6, max_rounds=6, finished=True)

    days.then = live()
    assert run(words(layout, "--follow", "--every", "3")) == 0
    assert days.pauses == [10, 20, 40, 80, 160, 300, 300, 300]
    assert days.pushed == [6]
    said = capsys.readouterr().err
    assert "the hub answers 500; the run goes on, and this is tried again in 20 s [SWARM-PUSH]" in said


@pytest.mark.parametrize(("lasting", "seconds"), [(False, PATIENCE), (True, 0)])
def test_at_the_end_it_is_tried_while_that_may_help_and_then_the_command_for_it_is_said(
    layout: Layout, monkeypatch: Patch, capsys: Said, lasting: bool, seconds: float
) -> None:
    days = Days(monkeypatch)
    days.failures = [PushError("the token", lasting=lasting)] * 99
    assert run(words(layout, "--follow")) == 1
    assert days.now == seconds
    assert f"swarm model push alice --repo {REPO} --path {layout.path} --experiment exp" in capsys.readouterr().err


def test_the_place_is_not_written_to(hub: PushHub, layout: Layout) -> None:  # noqa: F811
    before = {file: file.stat().st_mtime_ns for file in layout.path.rglob("*")}
    assert run(words(layout)) == 0
    assert run(words(layout, "--follow")) == 0
    assert {file: file.stat().st_mtime_ns for file in layout.path.rglob("*")} == before


# ── beside a swarm ──────────────────────────────────────────────────────────────────────────────────────────────────
SETTINGS = Settings(path="/p", hub_token="hf_secret", threads=1).with_values({"push_repo": "lab/x"})


def commands(settings: Settings, nodes: int) -> Sequence[ProgramBeside]:
    return programs_beside(settings, [f"worker-{number}" for number in range(nodes)])


def test_each_of_several_workers_is_pushed_to_a_repository_of_its_own_and_no_token_stands_in_a_command() -> None:
    first, second = commands(SETTINGS.with_values({"push_every": 50}), 2)
    assert first.command == (
        "swarm model push worker-0 --repo lab/x-worker-0 --follow --every 50 --path /p --experiment default_experiment"
    )
    assert second.title == "push of worker-1"
    assert dict(first.settings) == {"HUGGINGFACE_ACCESS_TOKEN": "hf_secret"}
    (alone,) = commands(SETTINGS, 1)
    assert "--repo lab/x --follow --path" in alone.command


def test_a_name_that_the_hub_would_not_take_is_refused_before_anything_starts() -> None:
    with pytest.raises(ConfigError, match=r"SWARM_PUSH_REPO: expected a repository as USER/NAME"):
        commands(SETTINGS.with_values({"push_repo": "lab/.."}), 1)
