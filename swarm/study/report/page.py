"""Sections as one HTML page that needs nothing else: its style and its figures are in it.

Names of nodes, tasks and configurations come from a folder that others write to, so everything but the figures that
were drawn here is escaped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from swarm.study.report.figure_style import inline_svg
from swarm.study.report.sections import Picture, Section, Table

TEMPLATE = Path(__file__).resolve().parents[2] / "assets" / "report" / "page.html"
LONGEST_TABLE = 40
"""Rows that the page shows of a table; its files have them all."""


def render_page(
    sections: Sequence[Section], svgs: Mapping[str, str], *, title: str, subtitle: str, missing: str, footer: str
) -> str:
    """The page.

    Args:
        sections: in their order.
        svgs: figure name -> SVG document, for every figure of the sections.
        title: of the page.
        subtitle: one line below it.
        missing: what an unfinished study lacks; empty for a whole one.
        footer: last line.
    """
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    template = environment.from_string(TEMPLATE.read_text(encoding="utf-8"))
    shown = [_section(section, svgs) for section in sections]
    return template.render(sections=shown, title=title, subtitle=subtitle, missing=missing, footer=footer)


def _section(section: Section, svgs: Mapping[str, str]) -> dict[str, Any]:
    parts = [_picture(part, svgs) if isinstance(part, Picture) else _table(part) for part in section.parts]
    long = any(isinstance(part, Table) and len(part.data) > 12 for part in section.parts) or len(parts) > 1
    return {"title": section.title, "text": section.text, "parts": parts, "long": long}


def _picture(picture: Picture, svgs: Mapping[str, str]) -> dict[str, Any]:
    svg = Markup(inline_svg(svgs[picture.name], picture.name))  # matplotlib drew it, its letters as outlines
    return {"name": picture.name, "caption": picture.caption, "svg": svg}


def _table(table: Table) -> dict[str, Any]:
    rows = table.rows()
    more = f"The first {LONGEST_TABLE} of {len(rows)} rows; all of them are in tables/{table.name}.csv."
    return {
        "name": table.name,
        "caption": table.caption,
        "columns": table.columns,
        "rows": rows[:LONGEST_TABLE],
        "more": more if len(rows) > LONGEST_TABLE else "",
        "svg": "",
    }
