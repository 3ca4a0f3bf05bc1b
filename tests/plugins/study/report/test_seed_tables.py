"""Per-seed tables as files: what is written is what is read, and what is no table is refused."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

pytest.importorskip("matplotlib")
pytest.importorskip("scipy")

import msgspec
from pandas.testing import assert_frame_equal

from swarm.errors import ConfigError
from swarm.plugins.study.report.evidence import Evidence, read_evidence
from swarm.plugins.study.report.seed_tables import FILES, Put, read_tables, write_tables
from swarm.store.folder.publish import publish_below
from tests.plugins.study.report.report_factory import write_study


@pytest.fixture(scope="module")
def evidence(tmp_path_factory: pytest.TempPathFactory) -> Evidence:
    path = tmp_path_factory.mktemp("small")
    write_study(path)
    return read_evidence(path, "small", None)


def into(folder: Path) -> Put:
    return partial(publish_below, folder)


def test_tables_come_back_as_they_were_whatever_the_names_in_them(tmp_path: Path) -> None:
    write_study(tmp_path, configurations=("NA", "1", "a,b"), task_rewards={'nan\n"x"': 0.9, "": 0.8, "1e3": 0.1 + 0.2})
    evidence = read_evidence(tmp_path, "small", 3)
    write_tables(evidence, into(tmp_path))
    again = read_tables(tmp_path / "tables", 3)
    assert again.record == evidence.record
    for field in FILES:
        assert_frame_equal(getattr(again, field), getattr(evidence, field), check_dtype=False, check_exact=True)
    assert len(again.crossings) > 0
    assert set(again.runs["configuration"]) == {"NA", "1", "a,b"}


def test_the_place_of_the_shared_folder_is_not_written_down(tmp_path: Path, evidence: Evidence) -> None:
    for said in ("--path '/home/a b/x'", "--path=/home/x"):
        record = msgspec.structs.replace(evidence.record, command=f"swarm study run sapo {said} --jobs 2")
        write_tables(replace(evidence, record=record), into(tmp_path))
        assert read_tables(tmp_path / "tables", None).record.command == "swarm study run sapo --jobs 2"


def test_what_is_no_folder_of_tables_is_refused_by_name(tmp_path: Path, evidence: Evidence) -> None:
    with pytest.raises(ConfigError, match=r"no study\.json in"):
        read_tables(tmp_path, None)
    write_tables(evidence, into(tmp_path))
    with pytest.raises(ConfigError, match="at least 1 round, got 0"):
        read_tables(tmp_path / "tables", 0)
    (tmp_path / "tables" / "rounds.csv").write_text("")
    with pytest.raises(ConfigError, match=r"rounds\.csv is no table"):
        read_tables(tmp_path / "tables", None)
    (tmp_path / "tables" / "runs.csv").unlink()
    with pytest.raises(ConfigError, match=r"no runs\.csv in"):
        read_tables(tmp_path / "tables", None)
    (tmp_path / "tables" / "study.json").write_text("{}")
    with pytest.raises(ConfigError, match="is no record of a study"):
        read_tables(tmp_path / "tables", None)


def test_text_in_a_table_is_no_formula_and_is_read_as_it_was(tmp_path: Path, evidence: Evidence) -> None:
    names = ["=1+1", "@x", "'quoted", " -2", "plain"] * len(evidence.rounds)
    rounds = evidence.rounds.assign(experiment=names[: len(evidence.rounds)])
    write_tables(replace(evidence, rounds=rounds), into(tmp_path))
    text = (tmp_path / "tables" / "rounds.csv").read_text()
    assert ",'=1+1," in text
    assert ",=1+1," not in text
    assert read_tables(tmp_path / "tables", None).rounds["experiment"].tolist() == rounds["experiment"].tolist()
