"""The verdict beside the paper's +94 %."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pandas as pd
import pytest

from swarm.plugins.study.analysis.comparisons import comparison_table
from swarm.plugins.study.record import ConfigurationRecord, StudyRecord
from swarm.plugins.study.report.evidence import read_evidence
from swarm.plugins.study.report.paper import against_paper
from swarm.plugins.study.report.write import contents
from tests.plugins.study.report.report_factory import make_record, write_study
from tests.plugins.study.study_files import record_file

TITLE = "Against the paper's +94 %"
SPLITS = {"4/0": (4, 0), "3/1": (3, 1), "2/2": (2, 2), "4/4": (4, 4)}


def with_splits(record: StudyRecord) -> StudyRecord:
    ones = tuple(
        ConfigurationRecord(
            name=one.name,
            settings=dict(zip(("local_groups", "external_groups"), SPLITS[one.name], strict=True)),
            baseline=one.baseline,
        )
        for one in record.configurations
    )
    return msgspec.structs.replace(record, configurations=ones)


def verdicts(**rewards: list[float]) -> list[str]:
    """Of a study with these sums, by configuration with `_` for the slash."""
    names = [name.replace("n", "").replace("_", "/") for name in rewards]
    record = with_splits(make_record("small", names, (1, 2, 3), ("alice", "bob"), 12))
    runs = pd.DataFrame(
        [
            {"configuration": name, "seed": seed, "rounds": 12, "cumulative_reward": value}
            for name, values in zip(names, rewards.values(), strict=True)
            for seed, value in enumerate(values, 1)
        ]
    )
    return against_paper(comparison_table(runs, record), record)


def test_half_of_the_groups_from_peers_is_held_against_none_and_nothing_else() -> None:
    found = verdicts(n4_0=[9.0, 10.0, 11.0], n3_1=[20.0, 21.0, 22.0], n2_2=[10.0, 11.0, 12.0])
    assert len(found) == 1
    assert found[0].startswith("Beside the paper: 2/2 against 4/0 measured +10.0 % (95 % interval -")
    assert "at an equal budget of 4 groups a round" in found[0]
    assert found[0].endswith("The paper's +94 % (4/4 against 8/0, an equal budget of 8) lies above that interval.")


def test_twice_the_groups_are_said_in_the_verdict() -> None:
    (found,) = verdicts(n4_0=[9.0, 10.0, 11.0], n4_4=[18.0, 20.0, 22.0])
    assert "at unequal budgets: 4/4 trains on 8 groups a round, 4/0 on 4: 2 times as many." in found
    assert "lies inside that interval" in found


@pytest.mark.parametrize(("sums", "place"), [([30.0, 31.0, 32.0], "below"), ([10.0, 10.1, 10.2], "above")])
def test_the_paper_s_percentage_lies_on_either_side(sums: list[float], place: str) -> None:
    (found,) = verdicts(n4_0=[9.9, 10.0, 10.1], n2_2=sums)
    assert f"lies {place} that interval" in found


def test_without_an_interval_nothing_is_held_against_it() -> None:
    (found,) = verdicts(n4_0=[10.0, 11.0], n2_2=[20.0, 21.0])
    assert "measured +95.2 % (no interval, n < 3)" in found
    assert found.endswith("cannot be held against it.")


def test_the_page_says_what_is_comparable(tmp_path: Path) -> None:
    record = with_splits(write_study(tmp_path, configurations=("4/0", "2/2", "4/4")))
    record_file(tmp_path, "small").write_bytes(msgspec.json.encode(record))
    sections = contents(read_evidence(tmp_path, "small", None))
    (said,) = [section.text for section in sections if section.title == TITLE]
    assert [text.partition(" measured")[0] for text in said[:2]] == [
        f"Beside the paper: {name} against 4/0" for name in ("2/2", "4/4")
    ]
    assert "2 nodes here, 8 there" in said[-1]
    assert "tiny-qwen2; Qwen2.5-0.5B" in said[-1]
    (plain,) = [section.text for section in sections if section.title == "In plain words"]
    unequal = "4/4 trains on 8 groups a round, 4/0 on 4: 2 times as many"
    (compared,) = [text for text in plain if text.startswith("Looked at afterwards: 4/4 lay above 4/0")]
    assert compared.endswith(f"{unequal}.")
    assert set(said[:2]) < set(plain)
    (headline,) = [section.text for section in sections if section.title == "Cumulative reward"]
    assert any(text.startswith(unequal) and "not the effect of sharing alone" in text for text in headline)


def test_a_study_without_such_a_pair_has_no_such_section(tmp_path: Path) -> None:
    record = with_splits(write_study(tmp_path, configurations=("4/0", "3/1")))
    record_file(tmp_path, "small").write_bytes(msgspec.json.encode(record))
    sections = contents(read_evidence(tmp_path, "small", None))
    assert TITLE not in [section.title for section in sections]
