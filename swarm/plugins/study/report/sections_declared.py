"""The sections on what was declared before the runs, and on what that leaves for afterwards."""

from __future__ import annotations

import pandas as pd

from swarm.plugins.study.analysis.declared import DeclaredResult, declared_results
from swarm.plugins.study.report.evidence import Evidence
from swarm.plugins.study.report.sections import INTERVAL, Column, Section, Table, number, p_value, signed, whole

NOTHING_DECLARED = (
    "Nothing was declared before the runs (a matrix does it with [[comparisons]]), so no test on this page can prove "
    "anything: all of it was looked at afterwards."
)

EXPLORED = (
    "This matrix is exploratory: no p-values. Nothing was declared before the runs, so that nothing on this page "
    "proves anything; what looks interesting has to be declared and run on fresh seeds."
)


def declared_section(evidence: Evidence) -> Section:
    """Returns every declared comparison with its test, whatever came out."""
    tested = declared_table(evidence)
    if tested.empty and not evidence.record.tests:
        return Section("What was declared", (EXPLORED,))
    if tested.empty:
        return Section("What was declared", (NOTHING_DECLARED,))
    return Section(
        "What was declared",
        (
            "These comparisons, their measures and their tests were fixed in the study's matrix before any run that "
            "this study made of their configurations began; what came out of runs that it took over was known. All of "
            "them stand here. Tests are two-sided, the unit is the seed: welch is "
            "Welch's t-test of two independent means, paired is Student's of the differences at equal seeds, zero is "
            "Student's of one mean against 0. They "
            f"are the one family of this page ({len(tested)}): Holm's p is adjusted over all that could be "
            "tested, and is the one to decide by. The interval of an improvement is that of the ratio's logarithm.",
        ),
        (Table("declared", "Declared comparisons.", tested, _COLUMNS),),
    )


def declared_table(evidence: Evidence) -> pd.DataFrame:
    """declared_results as a frame, with `untested`: why there is no p-value."""
    rows = declared_results(evidence.runs, evidence.record)
    numbers = DeclaredResult._fields[DeclaredResult._fields.index("mean") :]
    table = pd.DataFrame(rows, columns=DeclaredResult._fields).astype(dict.fromkeys(numbers, "float64"))
    return table.assign(untested=[row.why_untested for row in rows])


def exploratory_section(evidence: Evidence) -> Section:
    """Makes the section that says what the sections behind it are."""
    adjusted = "" if evidence.record.declared else ", but for Holm's p of the cumulative reward"
    said = f"p-values there are not adjusted for how many there are{adjusted}; " if evidence.record.tests else "All "
    return Section(
        "Looked at afterwards (exploratory)",
        (
            "All that follows was looked at after the runs: it describes these runs, may suggest what to declare for "
            "the next ones, and proves nothing. "
            f"{said}intervals hold the true value 95 % of the time one by one, not all at once.",
        ),
    )


_COLUMNS = (
    Column("configuration", "configuration", numeric=False),
    Column("against", "baseline", numeric=False),
    Column("measure", "measure", lambda name: name.replace("_", " "), numeric=False),
    Column("test", "test", numeric=False),
    Column("n", "n", whole),
    Column("mean", "mean", number(3)),
    Column("against", "baseline_mean", number(3)),
    Column("improvement, %", "improvement", signed(1)),
    Column(INTERVAL, "improvement_low", signed(1), to="improvement_high"),
    Column("p", "p", p_value, instead="untested"),
    Column("Holm's p", "p_holm", p_value, instead="untested"),
    Column("hypothesis", "hypothesis", numeric=False),
)
