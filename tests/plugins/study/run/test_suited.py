"""What a study of models that are not embedded runs with where nobody says otherwise."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from swarm.plugins.study.cli.study import _as_begun_or_suited
from swarm.plugins.study.record import StudyRecord, write_study
from swarm.plugins.study.run.builtin import built_in
from swarm.plugins.study.run.matrix import Matrix, resolve, shared_settings

REAL = {"model": "openai-community/gpt2"}


def suited(matrix: Matrix, path: Path, **given: Any) -> dict[str, Any]:
    _, settings = _as_begun_or_suited(matrix, {"path": str(path), **given}, None, bring_back=False)
    return settings.as_recorded()


def test_a_real_model_gets_the_papers_questions_and_its_own_rate_not_those_of_a_built_in_matrix(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = suited(built_in("sapo"), tmp_path, **REAL)
    assert (found["profile"], found["learning_rate"]) == ("paper-2", None)
    assert "profile paper-2, because openai-community/gpt2 is not" in capsys.readouterr().err
    assert suited(built_in("sapo"), tmp_path, learning_rate=1e-5, **REAL)["learning_rate"] == 1e-5
    embedded = suited(built_in("sapo"), tmp_path)
    assert (embedded["profile"], embedded["learning_rate"]) == ("tiny-2", 2e-4)


def test_a_file_that_names_profile_and_rate_is_taken_at_its_word(tmp_path: Path) -> None:
    settings = {"model": ("gpt2",), "profile": "rl-swarm", "learning_rate": 3e-6}
    found = suited(replace(built_in("sapo"), settings=settings, built_in=False), tmp_path)
    assert (found["profile"], found["learning_rate"]) == ("rl-swarm", 3e-6)


def test_the_models_of_the_configurations_count(tmp_path: Path) -> None:
    matrix = built_in("five-node")
    models = [("gpt2",), ("gpt2-medium",), ("gpt2",), ("gpt2",)]
    own = tuple(
        msgspec.structs.replace(one, settings={**one.settings, "model": model})
        for one, model in zip(matrix.configurations, models, strict=True)
    )
    assert suited(replace(matrix, configurations=own), tmp_path)["profile"] == "paper-2"
    assert suited(replace(matrix, configurations=(*own[:3], matrix.configurations[3])), tmp_path)["profile"] == "tiny-2"


def begun(matrix: Matrix, path: Path, **given: Any) -> StudyRecord:
    shared = shared_settings(matrix, {"path": str(path), **given}, {}, None)
    record = resolve(matrix, shared, judged=False, created_at=1.0, versions={})
    write_study(path, record)
    return record


@pytest.mark.parametrize("profile", ["tiny-2", "paper-2", "rl-swarm"])
def test_a_study_that_goes_on_keeps_its_profile_and_rate(
    tmp_path: Path, profile: str, capsys: pytest.CaptureFixture[str]
) -> None:
    matrix = built_in("sapo")
    begun(replace(matrix, settings={**matrix.settings, "profile": profile}), tmp_path, **REAL)
    found = suited(matrix, tmp_path, **REAL)
    assert (found["profile"], found["learning_rate"]) == (profile, 2e-4)
    said = capsys.readouterr()
    assert ("goes on with profile = " in said.out) is (profile != "paper-2")
    assert "because" not in said.err
