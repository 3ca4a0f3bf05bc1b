"""Tables as LaTeX."""

from __future__ import annotations

import pandas as pd
import pytest

from swarm.plugins.study.report.latex import escaped, latex
from swarm.plugins.study.report.parts import Column, ShownTable, number


def make_table(rows: int = 1) -> ShownTable:
    frame = pd.DataFrame({"name": ["4/4 & co_1"] * rows, "mean": [1.25] * rows, "low": [None] * rows})
    columns = (Column("name", "name", numeric=False), Column("share, %", "mean", number(1)), Column("low", "low"))
    return ShownTable("t", "A caption\nof two lines", frame, columns)


def test_a_table_has_booktabs_rules_and_the_cells_of_the_page() -> None:
    assert latex(make_table()).splitlines() == [
        "% A caption of two lines",
        r"\begin{tabular}{lrr}",
        r"\toprule",
        r"name & share, \% & low \\",
        r"\midrule",
        r"4/4 \& co\_1 & 1.2 & -- \\",
        r"\bottomrule",
        r"\end{tabular}",
    ]


def test_a_table_that_fits_no_page_is_a_longtable() -> None:
    assert latex(make_table(41)).splitlines()[1] == r"\begin{longtable}{lrr}"


@pytest.mark.parametrize("hostile", ["\\input{x}", "$x^{2}$", "a%b", "~#&_{}", "a\n\\end{tabular}"])
def test_no_name_is_a_command(hostile: str) -> None:
    said = escaped(hostile)
    assert "\n" not in said
    for command in ("\\input", "\\end"):
        assert command not in said
    assert said.count("$") == said.count(r"\$")
    assert said.count("%") == said.count(r"\%")
