"""How many swarms of a study fit, and what is said before anything is written where none does."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from swarm.cli.main import run
from swarm.cli.plan import longest_talk
from swarm.planner.planner import plan_for
from swarm.plugins.study.cli import study_places
from swarm.plugins.study.cli.study_places import places
from swarm.plugins.study.record import read_study
from swarm.plugins.study.run.matrix import resolve, shared_settings
from swarm.plugins.study.run.matrix_file import built_in
from swarm.policy.embedded import suited_learning_rate
from tests.plugins.study.cli.test_study import make_record
from tests.unit.cli.memory import have_free

THESIS = ["study", "run", "thesis", "--jobs", "1", "--path"]


def test_there_are_no_more_swarms_at_a_time_than_fit_into_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    record = make_record()
    plan = SimpleNamespace(needed=7)
    monkeypatch.setattr(study_places, "plan_for", lambda *_, **__: plan)
    for fit, at_once in ((9, 3), (2, 2)):
        monkeypatch.setattr(study_places, "_how_many", lambda _, fit=fit: fit)
        assert places(record, tmp_path, 3, None) == at_once
    assert capsys.readouterr().out == "2 swarms at a time, not 3: the free memory does for no more\n"


@pytest.mark.parametrize("also", [[], ["--rehearse"]])
def test_what_does_not_fit_is_refused_before_anything_is_written_and_names_what_would(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], also: list[str]
) -> None:
    """So that the same name can be used with the option."""
    full, lora = _needed("none"), _needed("lora")
    assert lora < full
    have_free(monkeypatch, (full + lora) / 2 / 0.9)
    assert run([*THESIS, str(tmp_path), *also]) == 1
    said = capsys.readouterr().err
    assert "does not do for one swarm of this study: does not fit: 4 nodes on cpu need" in said
    assert "what would fit, and nothing does by itself: --adapter lora (" in said
    assert not list(tmp_path.rglob("study.json"))


@cache
def _needed(adapter: str) -> int:
    matrix = built_in("thesis")
    shared = shared_settings(matrix, {"adapter": adapter, "micro_batch_tokens": 64}, {}, None)
    record = resolve(matrix, shared, judged=False, created_at=1.0, versions={})
    with pytest.MonkeyPatch.context() as patch:
        have_free(patch, 10**12)
        (settings,) = study_places.different(record, Path(), None)[:1]
        return plan_for(settings, 4, in_process=True, talk=longest_talk(settings)).needed


def begun(path: Path, monkeypatch: pytest.MonkeyPatch, *words: str) -> dict[str, Any]:
    """What the record of a study says, which is begun and starts nothing."""
    monkeypatch.setattr("swarm.plugins.study.cli.study.run_all", lambda *_: 0)
    assert run([*THESIS, str(path), *words]) == 0
    return msgspec.to_builtins(read_study(path, "thesis"))  # type: ignore[no-any-return]


def test_an_adapter_that_is_named_is_a_part_of_the_study_with_the_rate_that_suits_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    record = begun(tmp_path, monkeypatch, "--adapter", "lora")
    assert record["settings"]["adapter"] == "lora"
    assert "learning_rate" not in record["settings"], "the matrix's is for all weights"
    assert suited_learning_rate("tiny-2-qwen2-rare", adapted=True) > 2e-4
    assert run([*THESIS, str(tmp_path), "--adapter", "none"]) == 2
    assert "adapter was 'lora', now 'none'" in capsys.readouterr().err
