"""The report of a study: one page, figures and tables, from whatever its folder holds."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import msgspec
import pytest

pytest.importorskip("matplotlib")
pytest.importorskip("scipy")

from swarm.errors import ConfigError, ExperimentError
from swarm.plugins.study.analysis.significance import holm
from swarm.plugins.study.record import DeclaredComparison, RunFile, read_study
from swarm.plugins.study.report import figures
from swarm.plugins.study.report.evidence import Evidence, missing_text, read_evidence
from swarm.plugins.study.report.parts import ShownTable
from swarm.plugins.study.report.seed_tables import FILES, LATER_FILES, csv_bytes, read_tables, write_tables
from swarm.plugins.study.report.write import FORMATS, LONGEST_TABLE, contents, write_report
from tests.plugins.study.report.report_factory import TASKS, cut_short, write_study
from tests.plugins.study.study_files import record_file, run_file
from tests.unit.views.tables.small_study import SMALL

ONE_DRAWING = pytest.mark.xdist_group("small_report")
HOSTILE = '<script>alert("x")</script>'
VOID = {"meta", "br", "path", "use"}


class Page(HTMLParser):
    """What a browser would take from a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag not in VOID:
            self.open.append(tag)
        for name, value in attrs:
            if name == "id":
                self.ids.append(value or "")
            if name in ("href", "src", "xlink:href"):
                self.links.append(value or "")

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()


@pytest.fixture(scope="module")
def small_report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of the committed study, without the forms that take long and depend on nothing of it."""
    output = tmp_path_factory.mktemp("report")
    return write_report(SMALL, "small", output, formats=("svg", "csv", "parquet", "tex")).parent


class Report:
    """What a report says, nothing of it drawn."""

    def __init__(self, evidence: Evidence) -> None:
        self.evidence, self.sections = evidence, contents(evidence)
        self.titles = [section.title for section in self.sections]
        parts = [part for section in self.sections for part in section.parts]
        self.tables = {part.name: part for part in parts if isinstance(part, ShownTable)}
        texts = [text for section in self.sections for text in section.text]
        cells = [cell for table in self.tables.values() for row in table.rows() for cell in row]
        self.words = " | ".join([missing_text(evidence.runs), *texts, *cells, *(part.caption for part in parts)])

    def rows(self, table: str) -> list[dict[Any, Any]]:
        """A table as its files would have it."""
        return self.tables[table].data.to_dict("records")


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


@ONE_DRAWING
def test_the_page_is_one_file_without_anything_from_outside(small_report: Path) -> None:
    page = (small_report / "index.html").read_text(encoding="utf-8")
    parsed = Page(page)
    assert parsed.open == []
    assert all(link.startswith("#") and link[1:] in parsed.ids for link in parsed.links)
    assert not re.search(r"(?i)@import|url\((?!#)|<(script|link|img|iframe)\b", page)
    assert len(parsed.ids) == len(set(parsed.ids))
    drawn = "".join(re.findall(r"<svg.*?</svg>", page, flags=re.DOTALL))
    assert "currentColor" in drawn
    assert "#1b1e23" not in drawn, "it takes its reader's colours"
    assert "prefers-color-scheme: dark" in page
    assert 'name="viewport"' in page


@ONE_DRAWING
def test_every_figure_and_table_of_the_page_lies_beside_it(small_report: Path) -> None:
    page = (small_report / "index.html").read_text(encoding="utf-8")
    figures, tables = re.findall(r'<figure id="(\w+)"', page), re.findall(r'<table id="(\w+)"', page)
    assert {"cumulative_reward", "reward_per_agent", "agent_average", "split_trajectory", "held_out"} <= set(figures)
    assert {"comparison", "effect_by_start", "oscillation", "rounds_to_threshold"} <= set(tables)
    expected = {"index.html", "tables/study.json"}
    expected |= {f"tables/{name}" for name in (*FILES.values(), LATER_FILES["splits"], LATER_FILES["rollout_files"])}
    expected |= {f"figures/{name}.svg" for name in figures}
    expected |= {f"tables/{name}.{form}" for name in tables for form in ("csv", "parquet", "tex")}
    assert files_in(small_report).keys() == expected


@ONE_DRAWING
def test_the_tables_alone_give_every_number_of_the_page_again(small_report: Path, tmp_path: Path) -> None:
    report = Report(read_tables(small_report / "tables", None))
    again = {f"{name}.csv": csv_bytes(table.data) for name, table in report.tables.items()}
    write_tables(report.evidence, lambda name, data: again.update({Path(name).name: data}))
    first = files_in(small_report / "tables")
    assert again == {name: data for name, data in first.items() if Path(name).suffix in (".csv", ".json")}
    shown = [cell for table in report.tables.values() for row in table.rows()[:LONGEST_TABLE] for cell in row]
    page = (small_report / "index.html").read_text("utf-8")
    assert len(shown) > 200
    assert [unescape(cell) for cell in re.findall(r"<td[^>]*>(.*?)</td>", page)] == shown


def test_names_from_the_folder_are_text_and_only_the_files_asked_for_are_written(tmp_path: Path) -> None:
    record = write_study(
        tmp_path, configurations=("8/0",), seeds=(1,), rounds=4, task_rewards={HOSTILE: 0.9, "$x^$": 0.8}
    )
    hostile = msgspec.structs.replace(record, title=HOSTILE, settings={HOSTILE: HOSTILE}, versions={HOSTILE: HOSTILE})
    (tmp_path / "studies" / "small" / "study.json").write_bytes(msgspec.json.encode(hostile))
    folder = write_report(tmp_path, "small", formats=("csv",)).parent
    assert {Path(name).suffix for name in files_in(folder)} == {".html", ".csv", ".json"}
    page = (folder / "index.html").read_text(encoding="utf-8")
    assert "<script" not in page
    assert page.count("&lt;script&gt;") >= 5
    assert Page(page).open == []


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
    assert not re.search(r"\bp (=|<) ?0|Holm|F\(", report.words)
    (row,) = [row for row in report.rows("comparison") if row["baseline"]]
    assert math.isnan(row["p"])
    assert row["untested"] == "exploratory"
    assert row["improvement"] > 0


def test_swarms_of_unlike_size_are_held_against_the_expected_informative_groups(tmp_path: Path) -> None:
    record = write_study(tmp_path, local_groups=4, zero_advantage_local=0.5)
    first, second = record.configurations
    unlike = (first, msgspec.structs.replace(second, nodes=8))
    record_file(tmp_path, "small").write_bytes(
        msgspec.json.encode(msgspec.structs.replace(record, configurations=unlike))
    )
    report = report_of(tmp_path)
    assert "Informative groups and the size of the swarm" in report.titles
    table = report.rows("informative_groups")
    assert [(row["nodes"], row["share"]) for row in table] == [(2, 0.5), (8, 0.5)]


def test_without_a_declaration_no_sentence_is_a_proof(plain: Report) -> None:
    words = plain.words
    assert "Nothing was declared before the runs" in words
    assert re.search(r"Looked at afterwards: 4/4 lay above 8/0 by \+\d+\.\d % \(.*?\) \(Holm-adjusted p ", words)
    assert "Declared:" not in words
    assert "is above" not in words
    assert "Analysis of variance over 8/0, 4/4: F(1, 4)" in words


def test_no_difference_is_said_as_plainly_as_one(tmp_path: Path) -> None:
    write_study(tmp_path, configurations=("8/0", "2/6"))
    report = report_of(tmp_path)
    assert "no more than chance may give" in report.words
    declared = with_record(report, declared=(DeclaredComparison(configuration="2/6", baseline="8/0"),))
    assert "Declared: 2/6 is not above 8/0 in cumulative reward beyond chance" in declared.words


def test_nothing_is_said_about_two_zeros(tmp_path: Path) -> None:
    declared = [DeclaredComparison(configuration="4/4", baseline="8/0")]
    write_study(tmp_path, declared=declared, my_reward=0.0, answer_tag_rate=0.0)
    (in_plain_words, *_) = report_of(tmp_path).sections
    assert not [said for said in in_plain_words.text if "4/4" in said and "8/0" in said and "paper" not in said]


def test_the_headline_says_which_of_format_and_content_moved(plain: Report) -> None:
    found = re.search(r"4/4 against 8/0: reward x(\S+) .*? = format x(\S+) .*? and content x(\S+) ", plain.words)
    assert found
    reward, form, content = map(float, found.groups())
    assert form * content == pytest.approx(reward, abs=0.03)
    assert content == 1
    assert "What moved (looked at afterwards): the format up; not shown to have moved: the content." in plain.words
    assert {row["task"] for row in plain.rows("tasks")} == set(TASKS)


def test_an_exam_is_shown_where_there_is_one(tmp_path: Path) -> None:
    write_study(tmp_path)
    row = {"node_id": "alice", "model": "tiny", "task": "arc_1d", "n": 20, "mean_reward": 0.5, "answered": 1.0}
    exam = [row | {"rounds_done": 0, "pass_at_1": 0.1}, row | {"rounds_done": 12, "pass_at_1": 0.4, "n": 60}]
    exam.append(row | {"rounds_done": 12, "pass_at_1": 0.8, "task": "bf"})
    (tmp_path / "experiments" / "small-1-s1" / "exam.json").write_bytes(msgspec.json.encode(exam))
    found = [(row["rounds_done"], row["pass_at_1"]) for row in report_of(tmp_path).rows("exam")]
    assert found == [(0, pytest.approx(0.1)), (12, pytest.approx((60 * 0.4 + 20 * 0.8) / 80))]


def test_pass_at_k_is_shown_where_all_rows_of_the_exam_tell_it(tmp_path: Path) -> None:
    write_study(tmp_path)
    shares = {"pass_at_1": 0.1, "pass_at_2": 0.2, "mean_reward": 0.5, "answered": 1.0}
    row = {"node_id": "alice", "model": "tiny", "rounds_done": 0, "n": 20, "samples": 2} | shares
    rows = [row | {"task": "bf"}, row | {"task": "arc_1d", "pass_at_2": 0.4, "n": 60}]
    file = tmp_path / "experiments" / "small-1-s1" / "exam.json"
    file.write_bytes(msgspec.json.encode(rows))
    (told,) = report_of(tmp_path).rows("exam_pass_at_k")
    assert told["pass_at_2"] == pytest.approx((20 * 0.2 + 60 * 0.4) / 80)
    file.write_bytes(
        msgspec.json.encode([{name: value for name, value in row.items() if name != "pass_at_2"} for row in rows])
    )
    assert "exam_pass_at_k" not in report_of(tmp_path).tables


def test_what_cannot_be_reported_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    record = write_study(tmp_path, missing=[f"small-{place}-s{seed}" for place in (0, 1) for seed in (1, 2, 3)])
    with pytest.raises(ConfigError, match="nothing to report"):
        write_report(tmp_path, record.study)
    with pytest.raises(ConfigError, match="png, svg, pdf, csv, parquet, tex; got doc"):
        write_report(tmp_path, record.study, formats=(*FORMATS, "doc"))
    with pytest.raises(ConfigError, match="window of at least 1 round, got 0"):
        write_report(tmp_path, record.study, window=0)
    with pytest.raises(ExperimentError, match="no study 'other'"):
        write_report(tmp_path, "other")
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


def test_tasks_that_somebody_made_up_do_not_make_a_figure_without_end(tmp_path: Path) -> None:
    rewards = {f"task {place:04} {'x' * 100}": 1.0 for place in range(300)}
    write_study(tmp_path, seeds=(1,), configurations=("8/0",), task_rewards=rewards)
    figure = figures.crossing_rounds(read_evidence(tmp_path, "small", None))
    assert figure.get_size_inches()[1] < 15
    assert max(len(label.get_text()) for label in figure.axes[0].get_yticklabels()) <= 40


def test_curves_over_costs_end_where_a_seed_has_no_more_rounds(tmp_path: Path) -> None:
    write_study(tmp_path, configurations=("8/0",))
    cut_short(tmp_path, "small-0-s3", 5)
    figure = figures.against("tokens_per_node", "", 1.0)(read_evidence(tmp_path, "small", None))
    (line,) = figure.axes[0].get_lines()
    assert len(line.get_xdata()) == 5


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
    assert [row["configuration"] for row in report.rows("held_out_by_window")] == ["8/0"]


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
