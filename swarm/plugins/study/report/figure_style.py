"""Style of a study's figures, and their encoding as SVG, PNG and PDF.

    figure function ─Figure─▶ svg_text ─▶ figures/*.svg, and inline_svg for the page
                            └▶ png_bytes, pdf_bytes ─▶ figures/*.png, *.pdf

Figures are 5 inches wide, which is a phone's width at 72 units an inch, so that their letters keep their size there.
The same data give the same bytes: identifiers come from a fixed salt and nothing writes a date.
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import matplotlib
import pandas as pd
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_pdf import FigureCanvasPdf
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from swarm.plugins.study.analysis.curves import mean_band
from swarm.plugins.study.analysis.significance import FEWEST_SEEDS

WIDTH = 5.0
"""Inches."""
LEGEND_WIDTH = 86
"""Characters of a legend that fit into it."""
LEGEND_MARK = 8
"""Characters that the line beside a label and the space between columns take."""
PNG_DPI = 180
INK = "#1b1e23"
"""Letters and axes; the page puts its own text colour in its place."""
FAINT = "#c9ccd1"
"""Grid lines; likewise."""
PALETTE = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8c8c8c")
"""Okabe and Ito's colours, told apart by colour-blind readers, without their yellow, which white paper swallows."""
LINES = ("-", "--", ":", "-.")
"""Line styles: the next one with each turn of the palette."""
_STYLE = {
    "font.size": 8.5,
    "axes.titlesize": 9,
    "axes.labelsize": 8.5,
    "legend.fontsize": 8,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "legend.frameon": False,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.facecolor": "none",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": FAINT,
    "grid.linewidth": 0.6,
    "axes.linewidth": 0.7,
    "lines.linewidth": 1.5,
    "text.parse_math": False,
    "svg.fonttype": "path",
    "pdf.fonttype": 42,
    "svg.hashsalt": "swarm",
}


@dataclass(frozen=True)
class FigureStyle:
    """Gives each configuration its place, colour and line, everywhere the same."""

    configurations: tuple[str, ...]

    def colour(self, configuration: str) -> str:
        return PALETTE[self.configurations.index(configuration) % len(PALETTE)]

    def line(self, configuration: str) -> str:
        return LINES[self.configurations.index(configuration) // len(PALETTE) % len(LINES)]

    def among(self, present: Iterable[Any]) -> list[str]:
        """Returns the configurations in `present`, in the study's order."""
        there = set(present)
        return [name for name in self.configurations if name in there]

    def split(self, rows: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
        """Yields each configuration that has rows, in the study's order, with these."""
        for name in self.among(rows["configuration"].unique()):
            yield name, rows[rows["configuration"] == name]

    def in_order(self, rows: pd.DataFrame, *by: str) -> pd.DataFrame:
        """Returns rows sorted by these columns, configurations in the study's order."""
        place = {name: place for place, name in enumerate(self.configurations)}
        return rows.sort_values(
            list(by), key=lambda own: own.map(place) if own.name == "configuration" else own, ignore_index=True
        )


def draw_curve(axis: Any, look: FigureStyle, name: str, x: Any, y: Any, **style: Any) -> None:
    """One configuration's line, in its colour and under its name."""
    axis.plot(x, y, look.line(name), color=look.colour(name), label=name, **style)


def draw_band(axis: Any, colour: str, x: Any, low: Any, high: Any, alpha: float = 0.18) -> None:
    """The area between two curves."""
    axis.fill_between(x, low, high, color=colour, alpha=alpha, linewidth=0)


def draw_mean(axis: Any, look: FigureStyle, name: str, curves: pd.DataFrame, **style: Any) -> None:
    """The mean over the columns, one per seed, with its interval where there are seeds enough for one."""
    draw_curve(axis, look, name, curves.index, curves.mean(axis=1), **style)
    if curves.shape[1] >= FEWEST_SEEDS and len(curves):
        draw_band(axis, look.colour(name), curves.index, *mean_band(curves))


@contextmanager
def figure_style() -> Iterator[None]:
    """Makes and saves figures in this style within the block."""
    with matplotlib.rc_context(_STYLE):
        yield


def new_figure(height: float, rows: int = 1, columns: int = 1) -> tuple[Any, list[Any]]:
    """Returns a figure `height` inches high and its axes, row by row; panels share both scales."""
    figure = Figure(figsize=(WIDTH, height), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True)
    return figure, list(axes.flat)


def panels(count: int, height: float = 1.7) -> tuple[Any, list[Any]]:
    """Returns a figure of `count` equal panels, two beside each other; the place of a missing last one stays empty."""
    columns = min(2, count)
    rows = -(-count // columns)
    figure, axes = new_figure(0.6 + height * rows, rows, columns)
    for spare in axes[count:]:
        spare.set_visible(False)
    if len(axes) > count > columns:
        axes[count - columns].tick_params(labelbottom=True)
    return figure, axes[:count]


def legend_below(figure: Any, columns: int) -> None:
    """One legend for the whole figure, under it, without repeating what several panels show.

    Args:
        columns: at most; fewer where labels are too long for the figure's width.
    """
    found: dict[str, Any] = {}
    for axes in figure.axes:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            found.setdefault(label, handle)
    if found:
        fitting = (count for count in range(columns, 1, -1) if _legend_width([*found], count) <= LEGEND_WIDTH)
        figure.legend(found.values(), found.keys(), loc="outside lower center", ncols=next(fitting, 1))


def _legend_width(labels: Sequence[str], columns: int) -> int:
    """Returns the legend's width in characters; labels go down the columns."""
    rows = math.ceil(len(labels) / columns)
    return sum(max(map(len, labels[first : first + rows])) + LEGEND_MARK for first in range(0, len(labels), rows))


def png_bytes(figure: Any) -> bytes:
    """Returns the figure on white, as PNG."""
    file = io.BytesIO()
    FigureCanvasAgg(figure)
    figure.savefig(file, format="png", dpi=PNG_DPI, facecolor="white", metadata={"Software": None})
    return file.getvalue()


def pdf_bytes(figure: Any) -> bytes:
    """Returns the figure on white, as PDF, its letters embedded as text."""
    file = io.BytesIO()
    FigureCanvasPdf(figure)
    figure.savefig(file, format="pdf", facecolor="white", metadata={"CreationDate": None, "Creator": None})
    return file.getvalue()


def svg_text(figure: Any) -> str:
    """Returns the figure on nothing, as SVG."""
    file = io.StringIO()
    FigureCanvasSVG(figure)
    figure.savefig(file, format="svg", facecolor="none", metadata={"Date": None, "Creator": None})
    return file.getvalue()


def svg_file(svg: str) -> str:
    """Returns an SVG as a file of its own, on white."""
    return svg.replace("<svg ", '<svg style="background: white" ', 1)


def inline_svg(svg: str, name: str) -> str:
    """Returns an SVG as a part of a page: it takes the page's colours and width, and its identifiers carry its name.

    Args:
        svg: from svg_text.
        name: of the figure, unique in the page and fit for an identifier.
    """
    body = svg[svg.index("<svg ") :]
    body = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->", "", body, flags=re.DOTALL)
    body = re.sub(r' width="[^"]*pt"| height="[^"]*pt"', "", body, count=2)
    body = re.sub(r'\bid="', f'id="{name}-', body)
    body = re.sub(r'href="#', f'href="#{name}-', body)
    body = re.sub(r"url\(#", f"url(#{name}-", body)
    return body.replace(INK, "currentColor").replace(FAINT, "var(--faint)")
