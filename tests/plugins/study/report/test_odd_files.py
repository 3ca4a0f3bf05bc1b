"""What a stranger puts in the place of a report or its tables is refused or goes, and is never followed."""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path

import pytest

pytest.importorskip("matplotlib")
pytest.importorskip("scipy")

from dataclasses import replace

import msgspec
from pandas.testing import assert_frame_equal

from swarm.errors import ConfigError, StoreError
from swarm.plugins.study.record import RECORD, study_folder
from swarm.plugins.study.report.evidence import Evidence, read_evidence
from swarm.plugins.study.report.seed_tables import FILES, Put, read_tables, write_tables
from swarm.plugins.study.report.write import into_folder, into_study, write_report
from swarm.store.folder.publish import publish_below
from tests.objects import KINDS, bounded, put
from tests.plugins.study.report.report_factory import write_study

small = partial(write_study, seeds=(1,), rounds=4, configurations=("8/0",))


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The committed tables of a small study."""
    path = tmp_path_factory.mktemp("small")
    small(path)
    write_tables(read_evidence(path, "small", None), partial(publish_below, path))
    return path / "tables"


@pytest.fixture
def tables(written: Path, tmp_path: Path) -> Path:
    """The same, to be spoiled."""
    return Path(shutil.copytree(written, tmp_path / "tables"))


@pytest.mark.parametrize("file", [RECORD, "runs.csv"])
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ("hard link", "file")])
def test_an_object_for_a_committed_table_is_refused(tables: Path, outside: Path, kind: str, file: str) -> None:
    put(kind, tables / file, outside)
    with bounded(), pytest.raises(ConfigError, match=rf"{file} is no (table|record)"):
        read_tables(tables, None)


def test_a_table_with_columns_without_end_is_refused(tables: Path) -> None:
    (tables / "runs.csv").write_bytes(b"a," * (1 << 24) + b"a\n")
    with bounded(), pytest.raises(ConfigError, match=r"runs\.csv is no table.*its first line"):
        read_tables(tables, None)


def test_objects_in_the_place_of_a_report_go(tmp_path: Path, outside: Path) -> None:
    small(tmp_path)
    report = study_folder(tmp_path, "small") / "report"
    files = ["report.md", "tables/study.json", "tables/runs.csv", "tables/rounds.csv", "tables/learners.csv"]
    kinds = ["folder", "fifo", "link to a file", "hard link", "sparse terabyte"]
    for file, kind in zip(files, kinds, strict=True):
        put(kind, report / file, outside)
    with bounded(4 << 30):
        page = write_report(read_evidence(tmp_path, "small", None), *into_study(tmp_path, "small"), ("csv",))
    assert all((report / file).is_file() and not (report / file).is_symlink() for file in files)
    assert page.read_text().startswith("# A small study")
    assert read_tables(report / "tables", None).record.study == "small"
    assert (outside / "precious").read_bytes() == b"precious\n"


@pytest.mark.parametrize(
    ("kind", "folder"),
    [
        ("link to a folder", "report"),
        ("link to a folder", "report/tables"),
        ("fifo", "report"),
        ("file", "report/tables"),
    ],
)
def test_an_object_for_the_folder_of_a_report_is_refused(tmp_path: Path, outside: Path, kind: str, folder: str) -> None:
    small(tmp_path)
    place = study_folder(tmp_path, "small") / folder
    if kind == "link to a folder":
        place.parent.mkdir(exist_ok=True)
        place.symlink_to(outside)
    else:
        put(kind, place, outside)
    evidence = read_evidence(tmp_path, "small", None)
    with bounded(4 << 30), pytest.raises(StoreError, match=rf"cannot write the report into .*{folder}"):
        write_report(evidence, *into_study(tmp_path, "small"), ("csv",))
    assert [file.name for file in outside.iterdir()] == ["precious"]


def test_a_folder_of_the_user_s_own_is_written_without_following_a_link_in_it(tmp_path: Path, outside: Path) -> None:
    small(tmp_path)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "tables").symlink_to(outside)
    with pytest.raises(StoreError, match=r"symbolic link.*see --output"):
        write_report(read_evidence(tmp_path, "small", None), *into_folder(tmp_path / "mine"), ("csv",))
    assert [file.name for file in outside.iterdir()] == ["precious"]


# ── per-seed tables ─────────────────────────────────────────────────────────────────────────────────────────────────
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
    def refused(said: str, window: int | None = None) -> None:
        with pytest.raises(ConfigError, match=said):
            read_tables(folder, window)

    folder = tmp_path / "tables"
    refused(r"no study\.json in")
    write_tables(evidence, into(tmp_path))
    refused("at least 1 round, got 0", window=0)
    (folder / "rounds.csv").write_text("")
    refused(r"rounds\.csv is no table")
    (folder / "runs.csv").unlink()
    refused(r"no runs\.csv in")
    (folder / "study.json").write_text("{}")
    refused("is no record of a study")


def test_text_in_a_table_is_no_formula_and_is_read_as_it_was(tmp_path: Path, evidence: Evidence) -> None:
    names = ["=1+1", "@x", "'quoted", " -2", "plain"] * len(evidence.rounds)
    rounds = evidence.rounds.assign(experiment=names[: len(evidence.rounds)])
    write_tables(replace(evidence, rounds=rounds), into(tmp_path))
    text = (tmp_path / "tables" / "rounds.csv").read_text()
    assert ",'=1+1," in text
    assert ",=1+1," not in text
    assert read_tables(tmp_path / "tables", None).rounds["experiment"].tolist() == rounds["experiment"].tolist()
