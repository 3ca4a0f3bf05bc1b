"""Figures of a study: what they draw, read back from the axes."""

from __future__ import annotations

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
from swarm.plugins.study.report.contents import CONTENTS
from swarm.plugins.study.report.evidence import Evidence
from swarm.plugins.study.report.figures import (
    agents,
    curves,
    encoded,
    figure_style,
    legend_below,
    mean_over_seeds,
    new_figure,
)
from swarm.plugins.study.report.parts import Figure, rows_of
from tests.plugins.study.report.report_factory import make_evidence, make_record

RECORD = make_record("small", ("8/0", "4/4"), (1, 2), ("a", "b"), 4)


def of_runs(runs: dict[tuple[str, int], list[float]]) -> pd.DataFrame:
    """Rows of (configuration, seed) -> value by round."""
    rows = [
        {"configuration": name, "seed": seed, "round": number, "mean": value}
        for (name, seed), curve in runs.items()
        for number, value in enumerate(curve)
    ]
    return pd.DataFrame(rows)


def totals(rewards: dict[str, list[float]], start: float = 0.1) -> pd.DataFrame:
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
        totals({f"{name} 8/0": [1.0, 1.01, 0.99], name: [gain, 1.01 * gain, 0.99 * gain]}, start)
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
    runs = totals({"8/0": [10.0, 11.0, 12.5], "4/4": [19.0, 20.0]})
    axis = axis_of("cumulative_reward", make_evidence(RECORD, runs=runs))
    assert [bar.get_width() for bar in axis.patches] == pytest.approx([33.5 / 3, 19.5])
    dots = [found for found in axis.collections if isinstance(found, PathCollection)]
    assert [dot.get_offsets()[:, 0].tolist() for dot in dots] == [[10.0, 11.0, 12.5], [19.0, 20.0]]
    assert len(axis.containers) == 3, "two bars, and one interval: of two seeds there is none"


def test_a_mean_over_seeds_ends_where_the_shortest_run_does() -> None:
    rows = of_runs({("8/0", 1): [0.0, 0.2, 0.4], ("8/0", 2): [0.2, 0.4]})
    (axis,) = mean_over_seeds(make_evidence(RECORD, window=2), rows).axes
    assert axis.lines[0].get_ydata().tolist() == pytest.approx([0.1, 0.2])
    assert not axis.collections, "two seeds have no interval"


def test_a_curve_is_a_moving_average_over_the_rounds() -> None:
    rows = of_runs({("4/4", 1): [0.0, 0.2, 0.4]})
    for draw, drawn in ((curves({"mean": ""}), [0.0, 0.1, 0.3]), (curves({"mean": ""}, window=1), [0.0, 0.2, 0.4])):
        (axis,) = draw(make_evidence(RECORD, window=2), rows).axes
        assert axis.lines[0].get_ydata().tolist() == pytest.approx(drawn)


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
