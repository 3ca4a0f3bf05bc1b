"""The report of a study: one page, figures and tables, from whatever its folder holds."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

pytest.importorskip("matplotlib")
pytest.importorskip("scipy")

import pandas as pd
from matplotlib.collections import PathCollection
from scipy import stats

from swarm.errors import ConfigError, ExperimentError
from swarm.plugins.study.analysis.curves import mean_band
from swarm.plugins.study.analysis.planted import planted_by_round
from swarm.plugins.study.analysis.significance import holm
from swarm.plugins.study.record import ConfigurationRecord, DeclaredComparison, RunFile, read_study
from swarm.plugins.study.report.contents import CONTENTS
from swarm.plugins.study.report.evidence import Evidence, read_evidence
from swarm.plugins.study.report.figures import (
    agents,
    curves,
    encoded,
    figure_style,
    legend_below,
    mean_over_seeds,
    new_figure,
)
from swarm.plugins.study.report.notes import what_was_run
from swarm.plugins.study.report.parts import Figure, Table, rows_of
from swarm.plugins.study.report.seed_tables import FILES, LATER_FILES, read_tables
from swarm.plugins.study.report.write import (
    FORMATS,
    cells,
    into_folder,
    into_study,
    markdown,
    shown_columns,
    tables,
    write_report,
)
from tests.plugins.study.analysis.frames_by_hand import make_metrics
from tests.plugins.study.report.report_factory import (
    TASKS,
    cut_short,
    make_evidence,
    make_record,
    table_of,
    write_study,
)
from tests.plugins.study.study_files import record_file, run_file
from tests.unit.views.tables.small_study import SMALL

HOSTILE = '<script>alert("x")</script>\n# y'


class Report:
    """What a report says, nothing of it drawn."""

    def __init__(self, evidence: Evidence) -> None:
        self.evidence, self.tables = evidence, tables(evidence)
        self.page = markdown(evidence, self.tables)
        self.words = re.sub(r"\\(.)", r"\1", self.page)
        self.titles = re.findall("^## (.*)$", self.words, flags=re.MULTILINE)

    def rows(self, table: str) -> list[dict[Any, Any]]:
        """A table as its file would have it."""
        return self.tables[table].to_dict("records")

    def said(self, title: str) -> str:
        """What stands in a section."""
        return self.words.partition(f"## {title}\n")[2].partition("\n## ")[0]


def report_of(path: Path) -> Report:
    return Report(read_evidence(path, "small", None))


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Report:
    """The report of 8/0 and 4/4 over three seeds, of which nothing was declared."""
    path = tmp_path_factory.mktemp("plain")
    write_study(path)
    return report_of(path)


def with_record(report: Report, **changes: Any) -> Report:
    """The same runs of a study that says something else of itself."""
    record = msgspec.structs.replace(report.evidence.record, **changes)
    return Report(replace(report.evidence, record=record))


def files_in(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in sorted(folder.rglob("*")) if file.is_file()}


def test_the_page_links_its_figures_and_comes_out_of_its_tables_again(tmp_path: Path) -> None:
    evidence = read_evidence(SMALL, "small", None)
    page = write_report(evidence, *into_folder(tmp_path / "first"), ("svg", "csv")).read_text("utf-8")
    first = files_in(tmp_path / "first")
    drawn = re.findall(r"]\((.*?)\)", page)
    expected = {"cumulative_reward", "mean_over_seeds", "reward_per_agent", "agent_average", "held_out"}
    assert expected | {"split_trajectory"} <= {Path(one).stem for one in drawn}
    per_seed = (*FILES.values(), LATER_FILES["agents"], LATER_FILES["splits"], "study.json")
    named = {*per_seed, *(f"{name}.csv" for name in tables(evidence))}
    assert first.keys() == {"report.md", *drawn, *(f"tables/{name}" for name in named)}
    read = read_tables(tmp_path / "first" / "tables", None)
    write_report(read, *into_folder(tmp_path / "again"), ("svg", "csv"))
    again = files_in(tmp_path / "again")
    command = [files.pop("report.md").partition(b"This report was written by")[2] for files in (first, again)]
    assert again == first
    assert [text.partition(b"\n")[2] for text in command[:1]] == [text.partition(b"\n")[2] for text in command[1:]]


def test_names_from_the_folder_are_text_and_only_the_files_asked_for_are_written(tmp_path: Path) -> None:
    names = (HOSTILE, "![x](http://x)", "a|b", "`x`", "$x$")
    record = write_study(
        tmp_path, configurations=("8/0",), seeds=(1,), rounds=4, task_rewards=dict.fromkeys(names, 0.9)
    )
    hostile = msgspec.structs.replace(record, title=HOSTILE, settings={HOSTILE: HOSTILE}, versions={HOSTILE: HOSTILE})
    (tmp_path / "studies" / "small" / "study.json").write_bytes(msgspec.json.encode(hostile))
    page = write_report(read_evidence(tmp_path, "small", None), *into_study(tmp_path, "small"), ("csv",))
    assert {Path(name).suffix for name in files_in(page.parent)} == {".md", ".csv", ".json"}
    text = page.read_text("utf-8")
    assert text.count(r"\<script\>") >= 5
    assert not re.search(r"^\\?# y", text, re.MULTILINE)
    assert not re.search(r"(?<!\\)[<\[`$]", text)
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert all(re.fullmatch(r"\|( ([^|\\]|\\.)+ \|)+", line) for line in rows)


@pytest.mark.parametrize("missing", [None, float("nan"), pd.NA])
def test_a_cell_has_its_interval_and_the_digits_that_its_size_asks_for(missing: Any) -> None:
    frame = pd.DataFrame(
        {
            "improvement": [12.345, -0.5, missing],
            "improvement_low": [1.0, missing, missing],
            "improvement_high": [23.0, missing, missing],
            "tokens": [12345.6, 7.0, 0.12345],
            "ratio": [math.inf, -2.345, 0.0],
            "p_holm": [0.0001, 0.25, missing],
            "nothing": [missing] * 3,
        }
    )
    columns = shown_columns(Table("t", "", "runs"), frame)
    assert columns == ["improvement", "tokens", "ratio", "p_holm"]
    assert cells(frame, columns) == [
        ["+12.35 (+1 to +23)", "12,346", "inf", r"\< 0.001"],
        ["-0.500", "7", "-2.35", "0.250"],
        ["–", "0.123", "0", "–"],
    ]


def test_of_a_long_table_the_page_has_the_first_rows(tmp_path: Path) -> None:
    write_study(tmp_path, configurations=("8/0",), seeds=range(41), rounds=2)
    report = report_of(tmp_path)
    assert "The first 40 of 41 rows; all of them are in tables/runs.csv." in report.page
    assert len(re.findall("^[|] 8/0 [|]", report.said("Runs, settings and versions"), re.MULTILINE)) == 40


def test_a_section_without_rows_is_left_out_and_rows_are_in_the_order_of_the_study(plain: Report) -> None:
    assert {"Planted words", "Learned from others", "Held-out questions"}.isdisjoint(plain.titles)
    assert [row["configuration"] for row in plain.rows("oscillation")] == ["8/0", "4/4"]


def test_an_unfinished_study_says_what_is_missing_and_counts_no_run_that_has_only_begun(tmp_path: Path) -> None:
    write_study(tmp_path, missing=("small-1-s2",))
    cut_short(tmp_path, "small-1-s3", 5)
    report = report_of(tmp_path)
    assert "4 of 6 runs are" in report.words
    assert "4/4 seed 2 (0 of 12), 4/4 seed 3 (5 of 12)" in report.words
    assert "untested (n < 3)" in report.words
    rows = {row["configuration"]: row for row in report.rows("comparison")}
    assert (rows["8/0"]["n"], rows["4/4"]["n"]) == (3, 1)


def test_what_was_declared_is_tested_first_and_the_rest_is_called_exploratory(tmp_path: Path) -> None:
    declared = [
        DeclaredComparison(configuration="4/4", baseline="8/0", hypothesis="sharing pays"),
        DeclaredComparison(configuration="4/4", baseline="8/0", measure="final_reward", test="paired"),
    ]
    write_study(tmp_path, configurations=("8/0", "4/4", "2/6"), declared=declared)
    report = report_of(tmp_path)
    titles, words = report.titles, report.words
    assert titles[0] == "In plain words"
    assert titles.index("What was declared") + 1 == titles.index("Looked at afterwards (exploratory)")
    assert titles.index("Cumulative reward") > titles.index("Looked at afterwards (exploratory)")
    assert re.search(
        r"Declared: 4/4 is above 8/0 in cumulative reward by \+\d+\.\d % \(.*? to .*?\) \(welch, Holm", words
    )
    assert re.search(r"Declared: 4/4 is above 8/0 in final reward by \+\d+\.\d % \(.*? to .*?\) \(paired, Holm", words)
    assert re.search(r"Looked at afterwards: 2/6 lay (above|below) 8/0 by", words)
    assert "Looked at afterwards: 4/4" not in words
    rows = report.rows("declared")
    assert [row["p_holm"] for row in rows] == pytest.approx(holm([row["p"] for row in rows]))
    assert [row["hypothesis"] for row in rows] == ["sharing pays", ""]
    assert all(math.isnan(row["p_holm"]) for row in report.rows("comparison"))


def test_an_exploratory_study_has_no_p_value_anywhere(plain: Report) -> None:
    report = with_record(plain, exploratory=True)
    assert "exploratory: no p-values" in report.words
    assert not re.search(r"\bp (=|<) ?0", report.words)
    assert not re.search(r"\| p( holm)? \|", report.words)
    (row,) = [row for row in report.rows("comparison") if row["baseline"]]
    assert math.isnan(row["p"])
    assert row["untested"] == "exploratory"
    assert row["improvement"] > 0


def test_without_a_declaration_no_sentence_is_a_proof(plain: Report) -> None:
    words = plain.words
    assert "Nothing was declared before the runs" in words
    assert re.search(r"Looked at afterwards: 4/4 lay above 8/0 by \+\d+\.\d % \(.*?\) \(Holm-adjusted p ", words)
    assert "Declared:" not in words
    assert "is above" not in words
    (variance,) = plain.tables["variance"].to_dict("records")
    assert (variance["configurations"], variance["df_between"], variance["df_within"]) == ("8/0, 4/4", 1, 4)


def test_no_difference_is_said_as_plainly_as_one(tmp_path: Path) -> None:
    write_study(tmp_path, configurations=("8/0", "2/6"))
    report = report_of(tmp_path)
    assert "no more than chance may give" in report.words
    declared = with_record(report, declared=(DeclaredComparison(configuration="2/6", baseline="8/0"),))
    assert "Declared: 2/6 is not above 8/0 in cumulative reward beyond chance" in declared.words


def test_nothing_is_said_about_two_zeros(tmp_path: Path) -> None:
    declared = [DeclaredComparison(configuration="4/4", baseline="8/0")]
    write_study(tmp_path, declared=declared, my_reward=0.0, answer_tag_rate=0.0)
    assert "4/4" not in report_of(tmp_path).said("In plain words")


def test_the_headline_says_which_of_format_and_content_moved(plain: Report) -> None:
    found = re.search(r"4/4 against 8/0: reward x(\S+) .*? = format x(\S+) .*? and content x(\S+) ", plain.words)
    assert found
    reward, form, content = map(float, found.groups())
    assert form * content == pytest.approx(reward, abs=0.03)
    assert content == 1
    assert "What moved (looked at afterwards): the format up; not shown to have moved: the content." in plain.words
    assert {row["task"] for row in plain.rows("tasks")} == set(TASKS)


def test_an_exam_is_shown_and_its_pass_at_k_where_all_rows_tell_it(tmp_path: Path) -> None:
    write_study(tmp_path)
    row = {"node_id": "alice", "model": "tiny", "task": "arc_1d", "n": 20, "mean_reward": 0.5, "answered": 1.0}
    row |= {"rounds_done": 0, "pass_at_1": 0.1, "pass_at_2": 0.2, "samples": 2}
    exam = [row, row | {"rounds_done": 12, "pass_at_1": 0.4, "n": 60}]
    exam.append(row | {"rounds_done": 12, "pass_at_1": 0.8, "pass_at_2": 1.0, "task": "bf"})
    file = tmp_path / "experiments" / "small-1-s1" / "exam.json"
    file.write_bytes(msgspec.json.encode(exam))
    first, last = report_of(tmp_path).rows("exam")
    assert (first["rounds_done"], first["pass_at_1"], first["pass_at_2"]) == (0, pytest.approx(0.1), pytest.approx(0.2))
    assert last["rounds_done"] == 12
    assert last["pass_at_1"] == pytest.approx((60 * 0.4 + 20 * 0.8) / 80)
    assert last["pass_at_2"] == pytest.approx((60 * 0.2 + 20 * 1.0) / 80)
    del exam[0]["pass_at_2"]
    file.write_bytes(msgspec.json.encode(exam))
    assert "pass_at_2" not in report_of(tmp_path).tables["exam"]


def test_what_cannot_be_reported_is_refused_before_anything_is_written(tmp_path: Path, plain: Report) -> None:
    write_study(tmp_path, missing=[f"small-{place}-s{seed}" for place in (0, 1) for seed in (1, 2, 3)])
    with pytest.raises(ConfigError, match="nothing to report"):
        read_evidence(tmp_path, "small", None)
    with pytest.raises(ConfigError, match="window of at least 1 round, got 0"):
        read_evidence(tmp_path, "small", 0)
    with pytest.raises(ExperimentError, match="no study 'other'"):
        read_evidence(tmp_path, "other", None)
    with pytest.raises(ConfigError, match="png, svg, pdf, csv; got doc"):
        write_report(plain.evidence, *into_study(tmp_path, "small"), (*FORMATS, "doc"))
    assert not (tmp_path / "studies" / "small" / "report").exists()


def test_rows_of_more_nodes_than_were_planned_and_those_that_a_killed_node_left_out_are_said(tmp_path: Path) -> None:
    write_study(tmp_path, nodes=("alice", "bob", "mallory"))
    record = msgspec.structs.replace(read_study(tmp_path, "small"), nodes=2)
    record_file(tmp_path, "small").write_bytes(msgspec.json.encode(record))
    for node in ("bob", "mallory"):
        (tmp_path / "experiments" / "small-1-s3" / "logs" / node / "metrics.jsonl").unlink()
    report = report_of(tmp_path)
    found = report.rows("runs")
    assert [row["rows_beyond"] for row in found] == [12, 12, 12, 12, 12, 0]
    assert [row["rows_missing"] for row in found] == [0, 0, 0, 0, 0, 12]
    assert "5 runs have rows of more nodes than the study has" in report.words
    assert "1 runs lack rows of some node" in report.words


def test_aha_moments_and_judged_questions_are_compared_over_finished_runs(tmp_path: Path) -> None:
    write_study(tmp_path, task_rewards={"sums": 0.9})
    for experiment in ("small-0-s1", "small-1-s3"):
        file = tmp_path / "experiments" / experiment / "logs" / "judge" / "judge.jsonl"
        file.parent.mkdir()
        row = {"timestamp": 1.0, "round": 0, "node_id": "alice", "task": "sums", "profile": "tiny", "reward": 1.0}
        row |= {"question_id": "q", "full_answer": True, "answered": True, "experiment": experiment}
        file.write_bytes(msgspec.json.encode(row) + b"\n")
    cut_short(tmp_path, "small-1-s3", 8)
    report = report_of(tmp_path)
    assert {row["configuration"]: row["possible"] for row in report.rows("aha_moments")} == {"8/0": 6, "4/4": 4}
    assert report.evidence.held_out["configuration"].tolist() == ["8/0"]


def test_runs_that_other_versions_computed_are_named(tmp_path: Path, plain: Report) -> None:
    assert "other versions" not in plain.words
    run = write_study(tmp_path).runs[-1]
    written = RunFile(
        study="small",
        configuration=run.configuration,
        seed=run.seed,
        experiment=run.experiment,
        nodes=2,
        rounds=12,
        started_at=1.0,
        settings={},
        versions={"swarm": "0.2.0"},
    )
    run_file(tmp_path, run.experiment).write_bytes(msgspec.json.encode(written))
    assert "1 runs were computed by other versions (swarm 0.2.0, not 0.1.0): small-1-s3" in report_of(tmp_path).words


def test_of_swarms_of_unlike_sizes_the_page_says_how_their_sums_are_shown() -> None:
    record = make_record("small", ("4/4", "alone"), (1, 2), ("a", "b"), 3)
    first, second = record.configurations
    sized = msgspec.structs.replace(record, configurations=(first, msgspec.structs.replace(second, nodes=1)))
    assert "alone 1" in " ".join(what_was_run(make_evidence(sized)))


# ── planted words ───────────────────────────────────────────────────────────────────────────────────────────────────
def planted_table(**tables: pd.DataFrame) -> list[dict[Any, Any]]:
    return table_of("planted", make_evidence(PLANTED_RECORD, **tables)).to_dict("records")


PLANTED_RUNS = pd.DataFrame(
    {
        "configuration": ["honest", "two", "two"],
        "seed": [1, 1, 2],
        "experiment": ["a", "b", "c"],
        "rounds": 3,
        "cumulative_reward": [8.0, 4.0, 6.0],
        "planted": [0.0, 0.25, 0.75],
        "planted_final": [0.0, 0.5, 1.0],
        "planters_logprob": [float("nan"), -3.0, -5.0],
        "honest_tagged_final": [0.9, 0.2, 0.4],
        "honest_given_tagged": [0.5, 0.1, 0.2],
        "honest_reward": [1.0, 0.5, 0.7],
    }
)
PLANTED_RECORD = make_record("poison", ("honest", "two"), (1, 2), ("a", "b"), 3)
RECORD_OF_TWO = msgspec.structs.replace(PLANTED_RECORD, settings={"planted_words": "Buy gold now."})
NO_COMPLETIONS = pd.DataFrame({"round": [], "peer_id": [], "response": []})


def test_where_all_rollout_files_are_gone_pieces_are_not_known_and_the_rest_is_told() -> None:
    gone = planted_by_round(
        RECORD_OF_TWO, make_metrics([[0.5, 0.1]] * 12, "two", answer_tag_rate=0.5), lambda _: NO_COMPLETIONS
    )
    assert gone["tagged"].tolist() == [0.5] * 12
    for honest, two in (planted_table(runs=PLANTED_RUNS), planted_table(runs=PLANTED_RUNS, planted=gone)):
        assert pd.isna(two["pieces_final"])
        assert honest["honest_reward"] == 1.0


@pytest.mark.parametrize("runs", [PLANTED_RUNS.drop(columns="planted"), PLANTED_RUNS.assign(planted=float("nan"))])
def test_studies_without_planted_words_have_no_such_table(runs: pd.DataFrame) -> None:
    assert planted_table(runs=runs) == []


# ── figures, read back from their axes ──────────────────────────────────────────────────────────────────────────────
RECORD = make_record("small", ("8/0", "4/4"), (1, 2), ("a", "b"), 4)


def of_runs(runs: dict[tuple[str, int], list[float]]) -> pd.DataFrame:
    """Rows of (configuration, seed) -> value by round."""
    rows = [
        {"configuration": name, "seed": seed, "round": number, "mean": value}
        for (name, seed), curve in runs.items()
        for number, value in enumerate(curve)
    ]
    return pd.DataFrame(rows)


def sums_of(rewards: dict[str, list[float]], start: float = 0.1) -> pd.DataFrame:
    return pd.DataFrame(
        [
            {"configuration": name, "seed": seed, "experiment": f"{name}-{seed}", "rounds": 4}
            | {"cumulative_reward": reward, "starting_reward": start}
            for name, values in rewards.items()
            for seed, reward in enumerate(values)
        ]
    )


def axis_of(name: str, evidence: Evidence) -> Any:
    """The one pair of axes of a figure of the report."""
    parts = (part for one in CONTENTS for part in one.parts if isinstance(part, Figure) and part.name == name)
    figure = next(parts)
    (axis,) = figure.draw(evidence, rows_of(figure.rows, evidence)).axes
    return axis


def test_the_effect_of_groups_that_start_far_apart_is_drawn_within_the_figure() -> None:
    starts = {"rare": (0.002, 7.5), "few": (0.02, 1.13), "many": (0.2, 0.99)}
    configurations = tuple(
        one
        for name in starts
        for one in (
            ConfigurationRecord(name=f"{name} 8/0", group=name),
            ConfigurationRecord(name=name, group=name, baseline=f"{name} 8/0"),
        )
    )
    runs = [
        sums_of({f"{name} 8/0": [1.0, 1.01, 0.99], name: [gain, 1.01 * gain, 0.99 * gain]}, start)
        for name, (start, gain) in starts.items()
    ]
    record = msgspec.structs.replace(RECORD, configurations=configurations)
    axis = axis_of("effect_against_start", make_evidence(record, runs=pd.concat(runs)))
    dots = [found for found in axis.collections if isinstance(found, PathCollection)]
    marks = [tuple(map(float, dot.get_offsets()[0])) for dot in dots]
    (left, right), (low, high) = axis.get_xlim(), axis.get_ylim()
    assert sorted(marks) == [pytest.approx(mark) for mark in ((0.002, 650.0), (0.02, 13.0), (0.2, -1.0))]
    assert all(left < x < right and low < y < high for x, y in marks)


def test_a_bar_has_its_interval_and_a_dot_for_each_seed() -> None:
    runs = sums_of({"8/0": [10.0, 11.0, 12.5], "4/4": [19.0, 20.0]})
    axis = axis_of("cumulative_reward", make_evidence(RECORD, runs=runs))
    assert [bar.get_width() for bar in axis.patches] == pytest.approx([33.5 / 3, 19.5])
    dots = [found for found in axis.collections if isinstance(found, PathCollection)]
    assert [dot.get_offsets()[:, 0].tolist() for dot in dots] == [[10.0, 11.0, 12.5], [19.0, 20.0]]
    assert len(axis.containers) == 3, "two bars, and one interval: of two seeds there is none"


def test_a_mean_over_seeds_ends_where_the_shortest_run_does_and_is_a_moving_average() -> None:
    rows = of_runs({("8/0", 1): [0.0, 0.2, 0.4], ("8/0", 2): [0.2, 0.4]})
    (axis,) = mean_over_seeds(make_evidence(RECORD, window=2), rows).axes
    assert axis.lines[0].get_ydata().tolist() == pytest.approx([0.1, 0.2])
    assert not axis.collections, "two seeds have no interval"
    rows = of_runs({("4/4", 1): [0.0, 0.2, 0.4]})
    for draw, drawn in ((curves({"mean": ""}), [0.0, 0.1, 0.3]), (curves({"mean": ""}, window=1), [0.0, 0.2, 0.4])):
        (axis,) = draw(make_evidence(RECORD, window=2), rows).axes
        assert axis.lines[0].get_ydata().tolist() == pytest.approx(drawn), "a moving average over the rounds"


def test_the_agents_of_a_run_have_a_line_each_or_their_mean_and_range() -> None:
    rewards = {"anna": [0.0, 0.2, 0.4], "ben": [0.2, 0.6, 0.6]}
    rows = pd.DataFrame(
        {"configuration": "4/4", "seed": 7, "round": number, "node_id": node, "my_reward": reward}
        for node, curve in rewards.items()
        for number, reward in enumerate(curve)
    )
    evidence = make_evidence(RECORD, window=1)
    (axis,) = agents(each=True)(evidence, rows).axes
    assert [line.get_ydata().tolist() for line in axis.lines] == [*rewards.values()]
    assert axis.get_title() == "4/4 (seed 7)"
    (axis,) = agents(each=False)(evidence, rows).axes
    assert axis.lines[1].get_ydata().tolist() == pytest.approx([0.1, 0.4, 0.5])
    (band,) = axis.collections
    assert band.get_paths()[0].get_extents().bounds == pytest.approx((0, 0, 2, 0.6))


def test_the_panels_of_many_configurations_stand_in_rows_of_three() -> None:
    names = tuple(f"{own}/{8 - own}" for own in range(5))
    rows = pd.DataFrame(
        {"configuration": name, "seed": 1, "round": number, "node_id": "anna", "my_reward": 0.1}
        for name in names
        for number in range(3)
    )
    evidence = make_evidence(make_record("small", names, (1,), ("a",), 3), window=1)
    figure = agents(each=True)(evidence, rows)
    figure.draw_without_rendering()
    shown = [axis for axis in figure.axes if axis.get_visible()]
    assert [axis.get_title().partition(" ")[0] for axis in shown] == [*names]
    assert len({round(axis.get_position().y0, 2) for axis in shown}) == 2
    assert len({round(axis.get_position().x0, 2) for axis in shown}) == 3


def test_the_band_of_a_mean_is_students_interval_at_each_round() -> None:
    low, high = mean_band(pd.DataFrame({1: [0.5, 0.1], 2: [0.5, 0.2], 3: [0.5, 0.6]}))
    assert [low[0], high[0]] == pytest.approx([0.5, 0.5])
    expected = stats.ttest_1samp([0.1, 0.2, 0.6], 0.0).confidence_interval(0.95)
    assert [low[1], high[1]] == pytest.approx([expected.low, expected.high])


@pytest.mark.parametrize("label", ["4/4 {}", "gradient-scaled-alpha-0.{}"])
def test_a_legend_has_the_columns_that_fit(label: str) -> None:
    figure, (axis,) = new_figure(3.0)
    for number in range(14):
        axis.plot([0], [0], label=label.format(number))
    legend_below(figure)
    figure.draw_without_rendering()
    box = figure.legends[0].get_window_extent()
    assert figure.bbox.x0 <= box.x0 < box.x1 <= figure.bbox.x1


def test_letters_in_a_figure_are_outlines_and_no_mathematics() -> None:
    with figure_style():
        figure, (axis,) = new_figure(2)
        axis.set_title("</svg><script>--> $x^{")
        svg = encoded(figure, "svg").decode()
    assert "<script" not in svg
    assert "<text" not in svg
