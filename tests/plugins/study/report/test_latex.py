"""Tables as LaTeX."""

from __future__ import annotations

import pytest

pytest.importorskip("matplotlib")

import pandas as pd

from swarm.plugins.study.report.parts import Column, ShownTable, number
from swarm.plugins.study.report.write import latex


def said(name: str, rows: int = 1) -> str:
    frame = pd.DataFrame({"name": [name] * rows, "mean": [1.25] * rows, "low": [None] * rows})
    columns = (Column("name", "name", numeric=False), Column("share, %", "mean", number(1)), Column("low", "low"))
    return latex(ShownTable("t", "A caption", frame, columns))


def test_a_table_has_booktabs_rules_and_the_cells_of_the_page() -> None:
    assert said("4/4 & co_1").splitlines() == [
        r"\begin{tabular}{lrr}",
        r"\toprule",
        r"name & share, \% & low \\",
        r"\midrule",
        r"4/4 \& co\_1 & 1.2 & – \\",
        r"\bottomrule",
        r"\end{tabular}",
    ]
    assert said("4/4", 41).startswith(r"\begin{longtable}{lrr}")


@pytest.mark.parametrize("hostile", ["\\input{x}", "$x^{2}$", "a%b", "~#&_{}", "a\n\\end{tabular}"])
def test_no_name_is_a_command(hostile: str) -> None:
    (row,) = (line for line in said(hostile).splitlines() if "1.2" in line)
    for command in ("\\input", "\\end"):
        assert command not in row
    assert row.count("$") == row.count(r"\$")
    assert row.count("%") == row.count(r"\%")
