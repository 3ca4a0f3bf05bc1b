"""The report of a study: a Markdown page, its figures, and its tables as CSV.

    study.json, metrics, judge, exams ─read_evidence─▶ Evidence ─write_tables─▶ tables/study.json, runs.csv, ...
                                                          ▲ │                        │
                                                          └─┼──────read_tables───────┘     `--from-tables`
                                                            ▼
    CONTENTS: sections of notes, tables, figures ─────▶ write ─▶ report.md, tables/NAME.csv, figures/NAME.png, ...

What a report contains is one value, `contents.CONTENTS`. A table there is declared by the rows that it is made of, the
columns that these are grouped by, the measures of each group and a caption; a figure by its rows and its kind. Tests
and intervals come from swarm.plugins.study.analysis. A table or figure whose rows the study does not have is left out,
and so is a section that has nothing left, so no declaration says when it applies.

    evidence.py     the per-seed tables of a study: all that a report is made of
    seed_tables.py  the same as files, small enough for a repository
    contents.py     what a report contains
    notes.py        sentences on what came out
    parts.py        Section, Table, Figure
    figures.py      kinds of figures, their style, their files
    write.py        the writer

The same input gives the same bytes: nothing here asks for the time.
"""
