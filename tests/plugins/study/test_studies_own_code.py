"""What a study's record says in a place is text: code is named by the user's own matrix and settings alone."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from swarm.cli.judge import _vouched
from swarm.config import Settings, load_settings
from swarm.config.own_code import names_code, own_codes
from swarm.errors import ConfigError
from swarm.plugins.study.record import ConfigurationRecord, StudyRecord
from swarm.plugins.study.run.defaults import as_begun, grown
from swarm.plugins.study.run.launch import Launcher
from swarm.plugins.study.run.matrix import Matrix, run_settings
from swarm.plugins.study.run.matrix_file import read_matrix
from swarm.wire.codec import encode
from tests.plugins.study.study_files import resolved
from tests.unit.test_own_code import NAMED

REACHING = {
    "endpoint": {"base_url": "http://203.0.113.9/v1", "model": "m"},
    "push_repo": "mallory/models",
    "sinks": ["wandb"],
    "key_folder": "/home/you",
}


def study_of(tmp_path: Path, text: str) -> tuple[Matrix, StudyRecord]:
    """A matrix that the user wrote, and the record that it comes to."""
    file = tmp_path / "mine.toml"
    file.write_text('name = "mine"\nnodes = 2\nrounds = 4\nseeds = [1]\n' + text)
    matrix = read_matrix(file)
    return matrix, resolved(matrix, path=str(tmp_path))


OWN = """
[settings]
task_families = ["reasoning-gym", "mine:FAMILY"]
[[configurations]]
name = "one"
settings = { loss = "mine:loss" }
"""


def test_a_matrix_of_the_users_own_may_name_code_now_and_when_its_study_goes_on(tmp_path: Path) -> None:
    matrix, asked = study_of(tmp_path, OWN)
    read_back = msgspec.json.decode(encode(asked), type=StudyRecord)
    begun = as_begun(matrix, read_back)
    for record in (asked, grown(read_back, asked), grown(read_back, resolved(begun, path=str(tmp_path)))):
        settings = run_settings(record, record.runs[0], tmp_path)
        assert own_codes([settings.loss, settings.task_families]) == {"mine:loss", "mine:FAMILY"}
        environment = Launcher(record, tmp_path, {}, {})._environment(record.runs[0])
        assert (environment["SWARM_LOSS"], environment["SWARM_TASK_FAMILIES"]) == (
            "mine:loss",
            "reasoning-gym,mine:FAMILY",
        )


def test_a_studys_record_in_a_place_names_no_code(tmp_path: Path) -> None:
    _, asked = study_of(tmp_path, OWN)
    read_back = msgspec.json.decode(encode(asked), type=StudyRecord)
    settings = run_settings(read_back, read_back.runs[0], tmp_path)
    assert [*names_code("loss", settings.loss)] == ["mine:loss"]
    with pytest.raises(ConfigError, match="names code of somebody else"):
        Launcher(read_back, tmp_path, {}, {})._environment(read_back.runs[0])


@pytest.mark.parametrize("what", NAMED)
def test_what_a_record_says_of_defaults_and_of_other_configurations_names_no_code(what: str, tmp_path: Path) -> None:
    name, value = NAMED[what]
    matrix, asked = study_of(tmp_path, '[[configurations]]\nname = "one"\n')
    forged = msgspec.structs.replace(asked, defaults={**asked.defaults, name: value})
    with pytest.raises(ConfigError, match="names code of somebody else"):
        as_begun(matrix, forged)
    another = ConfigurationRecord(name="other", settings={name: value})
    forged = msgspec.structs.replace(asked, configurations=(*asked.configurations, another))
    with pytest.raises(ConfigError, match="names code of somebody else"):
        grown(forged, asked)


def test_the_models_of_a_study_are_examined_with_a_family_that_the_user_names_again(tmp_path: Path) -> None:
    _, asked = study_of(tmp_path, OWN)
    record = msgspec.json.decode(encode(asked), type=StudyRecord)
    read = run_settings(record, record.runs[0], tmp_path)
    assert [*names_code("task_families", _vouched(read, Settings()).task_families)]
    said = load_settings({}, {"SWARM_TASK_FAMILIES": "reasoning-gym,mine:FAMILY"})
    assert own_codes(_vouched(read, said).task_families) == {"mine:FAMILY"}
    other = load_settings({}, {"SWARM_TASK_FAMILIES": "mine:OTHER"})
    assert not own_codes(_vouched(read, other).task_families)


@pytest.mark.parametrize("name", REACHING)
def test_no_studys_record_has_nodes_reach_out_of_its_place(name: str, tmp_path: Path) -> None:
    matrix, asked = study_of(tmp_path, '[[configurations]]\nname = "one"\n')
    with pytest.raises(ConfigError, match="reaches out of the shared place"):
        as_begun(matrix, msgspec.structs.replace(asked, defaults={**asked.defaults, name: REACHING[name]}))
