"""Figures of a study: what they draw, read back from the axes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest
from scipy import stats

pytest.importorskip("matplotlib")
pytest.importorskip("scipy")

import pandas as pd
from matplotlib.collections import PathCollection

from swarm.plugins.study.analysis.curves import mean_band
from swarm.plugins.study.record import ConfigurationRecord
from swarm.plugins.study.report import figures
from swarm.plugins.study.report.evidence import Evidence
from swarm.plugins.study.report.figure_style import (
    FigureStyle,
    figure_style,
    inline_svg,
    legend_below,
    new_figure,
    svg_text,
)
from swarm.plugins.study.report.paper import CUMULATIVE_REWARD
from swarm.plugins.study.report.parts import Column, ShownTable, number
from tests.plugins.study.report.report_factory import make_evidence, make_record

LOOK = FigureStyle(("8/0", "4/4"))


def make_metrics(rewards: dict[tuple[str, int, str], list[float]]) -> Any:
    """Rows of (configuration, seed, node) -> reward by round."""
    return pd.DataFrame(
        [
            {"configuration": name, "seed": seed, "experiment": f"{name}-{seed}", "node_id": node, "round": number}
            | {"my_reward": reward}
            for (name, seed, node), curve in rewards.items()
            for number, reward in enumerate(curve)
        ]
    )


def make_totals(rewards: dict[str, list[float]], rounds: int) -> Any:
    return pd.DataFrame(
        [
            {"configuration": name, "seed": seed, "experiment": f"{name}-{seed}", "rounds": rounds}
            | {"cumulative_reward": reward, "starting_reward": 0.1}
            for name, values in rewards.items()
            for seed, reward in enumerate(values)
        ]
    )


def headline(rounds: int, nodes: int) -> Evidence:
    record = make_record("small", ("8/0", "4/4"), (0, 1, 2), [f"w{place}" for place in range(nodes)], rounds)
    totals = make_totals({"8/0": [10.0, 11.0, 12.5], "4/4": [19.0, 20.0, 22.0]}, rounds)
    return make_evidence(record, runs=totals)


def of_nodes(metrics: Any, window: int) -> Evidence:
    evidence = make_evidence(make_record("small", LOOK.configurations, (0, 1, 2), ("a", "b"), 4), window=window)
    return replace(evidence, metrics=metrics, rounds=metrics.rename(columns={"my_reward": "mean"}))


def marks_of_the_paper(figure: Any) -> list[float]:
    found = [marks for marks in figure.axes[0].collections if marks.get_label() == "the paper"]
    return [float(x) for marks in found for x, _ in marks.get_offsets()]


def test_the_papers_sums_are_drawn_only_beside_sums_over_as_many_nodes_and_rounds() -> None:
    assert marks_of_the_paper(figures.cumulative_bars(headline(2000, 8))) == [CUMULATIVE_REWARD["8/0"], 1093.31]
    assert marks_of_the_paper(figures.cumulative_bars(headline(100, 8))) == []
    assert marks_of_the_paper(figures.cumulative_bars(headline(2000, 5))) == []


def test_the_effect_of_groups_that_start_far_apart_is_drawn_within_the_figure() -> None:
    starts = {"rare": (0.002, 7.5), "few": (0.02, 1.13), "many": (0.2, 0.99)}
    configurations = [
        one
        for name in starts
        for one in (
            ConfigurationRecord(name=f"{name} 8/0", settings={}, group=name),
            ConfigurationRecord(name=name, settings={}, group=name, baseline=f"{name} 8/0"),
        )
    ]
    record = msgspec.structs.replace(
        make_record("small", ("8/0",), (1, 2, 3), ("a",), 3), configurations=tuple(configurations)
    )
    rows = [(name, gain, start) for name, (start, gain) in starts.items()]
    rows += [(f"{name} 8/0", 1.0, start) for name, (start, _) in starts.items()]
    totals = pd.concat(
        make_totals({name: [gain, 1.01 * gain, 0.99 * gain]}, 3).assign(starting_reward=start)
        for name, gain, start in rows
    )
    (axis,) = figures.effect_against_start(make_evidence(record, runs=totals)).axes
    dots = [found for found in axis.collections if isinstance(found, PathCollection)]
    marks = [tuple(map(float, dot.get_offsets()[0])) for dot in dots]
    (left, right), (low, high) = axis.get_xlim(), axis.get_ylim()
    assert sorted(marks) == [pytest.approx(mark) for mark in ((0.002, 650.0), (0.02, 13.0), (0.2, -1.0))]
    assert all(left < x < right and low < y < high for x, y in marks)


def test_the_range_over_agents_is_their_minimum_and_maximum_in_the_first_seed() -> None:
    curves = {("4/4", 2, "a"): [9.0, 9.0], ("4/4", 1, "a"): [0.1, 0.5], ("4/4", 1, "b"): [0.3, 0.2]}
    (axis,) = figures.average_and_range(of_nodes(make_metrics(curves), 1)).axes
    (band,) = axis.collections
    assert {tuple(point) for point in band.get_paths()[0].vertices.tolist()} == {(0, 0.1), (0, 0.3), (1, 0.2), (1, 0.5)}
    assert axis.get_title() == "4/4 (seed 1)"


def test_a_mean_over_seeds_ends_where_the_shortest_run_does() -> None:
    curves = {("8/0", 1, "a"): [0.0, 0.2, 0.4], ("8/0", 2, "a"): [0.2, 0.4]}
    (axis,) = figures.mean_over_seeds(of_nodes(make_metrics(curves), 1)).axes
    assert axis.lines[0].get_ydata().tolist() == pytest.approx([0.1, 0.3])
    assert not axis.collections, "two seeds have no interval"


def test_the_band_of_a_mean_is_students_interval_at_each_round() -> None:
    low, high = mean_band(pd.DataFrame({1: [0.5, 0.1], 2: [0.5, 0.2], 3: [0.5, 0.6]}))
    assert [low[0], high[0]] == pytest.approx([0.5, 0.5])
    expected = stats.ttest_1samp([0.1, 0.2, 0.6], 0.0).confidence_interval(0.95)
    assert [low[1], high[1]] == pytest.approx([expected.low, expected.high])


@pytest.mark.parametrize(("label", "columns"), [("4/4 {}", 4), ("gradient-scaled-alpha-0.{}", 2), ("a" * 90 + "{}", 1)])
def test_a_legend_has_the_columns_that_fit(label: str, columns: int) -> None:
    figure, (axis,) = new_figure(3.0)
    for number_ in range(14):
        axis.plot([0], [0], label=label.format(number_))
    legend_below(figure, 4)
    (legend,) = figure.legends
    assert legend._ncols == columns
    if columns > 1:
        figure.draw_without_rendering()
        box = legend.get_window_extent()
        assert box.x0 >= 0
        assert box.x1 <= figure.bbox.x1


def test_letters_in_a_figure_are_outlines_and_its_identifiers_carry_its_name() -> None:
    with figure_style():
        figure, (axis,) = new_figure(2)
        axis.set_title("</svg><script>--> $x^{")
        svg = inline_svg(svg_text(figure), "mine")
    assert "script" not in svg
    assert "<!--" not in svg
    assert all(part.startswith("mine-") for part in svg.split('id="')[1:])


@pytest.mark.parametrize("missing", [None, float("nan"), pd.NA])
def test_a_cell_without_a_value_shows_why_or_a_dash(missing: Any) -> None:
    frame = pd.DataFrame({"p": [missing, missing, 0.25], "why": ["n < 3", "", ""]})
    table = ShownTable("t", "", frame, (Column("p", "p", number(2), instead="why"),))
    assert table.rows() == [["n < 3"], ["–"], ["0.25"]]
