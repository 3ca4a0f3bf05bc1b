"""Generates what follows from the declarations: python -m tests.generate, or `make docs`.

    tests/golden/*          the example of each form, encoded anew      from itself: edit it to show another field
    swarm/wire/FORMS.md     tables of fields, examples                  from swarm.wire's messages, and the examples
    docs/metrics.md         tables of columns                           from swarm.views.tables.columns
    docs/settings.md        the tables of settings                      from swarm.config.settings
    docs/errors.md          the table of errors                         from swarm.errors

A page is written by hand but for the tables below `<!-- Name -->` and the examples below `<!-- name.json -->`. Meanings
are the docstrings of the fields. tests/unit/test_generated.py fails while a page is not what this makes of it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from itertools import groupby
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import NODEFAULT, Raw, UnsetType

from swarm.config.constraints import allowed
from swarm.config.declared import DECLARED, TABLES, Declared, allowed_of_table, meanings
from swarm.config.settings import FIELDS
from swarm.errors import ProtocolError, SwarmError
from swarm.types import Origin
from swarm.views.tables import columns
from swarm.wire import judge_messages, messages
from swarm.wire.codec import encode
from swarm.wire.kinds import Count
from tests.unit.wire.forms import FORMS, GOLDEN

ROOT = Path(__file__).parents[1]
WIDTH = 120
_WORDS = {float: "number", int: "integer", str: "text", bool: "flag", dict: "object", list: "list", tuple: "pair"}
_COUNT = get_args(Count)[1]
_MESSAGES = [
    form
    for form in (vars(messages) | vars(judge_messages)).values()
    if isinstance(form, type) and issubclass(form, msgspec.Struct)
]
FORM_CLASSES = [*_MESSAGES, Origin]
"""The JSON forms; one may take over the fields of another."""


def outputs() -> dict[Path, bytes]:
    """Every generated file: its path and what should be in it."""
    forms = {GOLDEN / name: encode(message) for name, message in FORMS.items()}
    pages = [
        ROOT / "swarm/wire/FORMS.md",
        ROOT / "docs/metrics.md",
        ROOT / "docs/settings.md",
        ROOT / "docs/errors.md",
    ]
    return forms | {page: _filled(page.read_text("utf-8")).encode() for page in pages}


def _filled(page: str) -> str:
    """A page with its tables and examples made anew. KeyError: it asks for one that there is not."""
    tables = _tables()
    page = re.sub(r"<!-- (\w+) -->\n(?:\|.*\n)*", lambda m: f"<!-- {m[1]} -->\n{tables[m[1]]}", page)
    example = r"<!-- ([\w.]+\.jsonl?) -->\n(?:```json\n[^`]*```\n)?"
    return re.sub(example, lambda m: f"<!-- {m[1]} -->\n```json\n{_example(FORMS[m[1]])}\n```\n", page)


def _tables() -> dict[str, str]:
    return {
        **{form.__name__: _fields(form) for form in FORM_CLASSES},
        "Settings": _settings(),
        "Keys": _keys(),
        "Errors": _errors(),
        "run": _described(columns.RUN_COLUMNS),
        "metrics": _columns(messages.MetricsRow, columns.METRICS),
        "events": _described(columns.EVENT_COLUMNS),
        "rollouts": _described(columns.ROLLOUT_COLUMNS),
        "rollout_files": _described(columns.ROLLOUT_FILE_COLUMNS),
        "rewards": _columns(messages.RewardFile, columns.REWARDS),
        "judge": _columns(judge_messages.JudgedRow, columns.JUDGE),
    }


def _table(*rows: tuple[str, ...]) -> str:
    head, *body = ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |\n" for row in rows]
    return "".join([head, "|" + "---|" * len(rows[0]) + "\n", *body]).replace("|  |", "| |")


# ── fields of a form ────────────────────────────────────────────────────────────────────────────────────────────────
def _fields(form: type[msgspec.Struct]) -> str:
    hints = get_type_hints(form, include_extras=True)
    meant = {name: text for base in form.__mro__ if base in FORM_CLASSES for name, text in meanings(base).items()}
    rows = [
        (f"`{f.encode_name}`", _type(hints[f.name]) + _in(hints[f.name]) + _default(f), meant[f.name])
        for f in msgspec.structs.fields(form)
        if f.name in meant or f.name != "schema_version"
    ]
    return _table(("field", "type", "meaning"), *rows)


def _type(hint: Any) -> str:
    """In the words of the page."""
    if get_origin(hint) is Annotated:
        (meta,) = (part for part in hint.__metadata__ if isinstance(part, msgspec.Meta))
        return meta.description or ("count" if (meta.ge, meta.lt) == (_COUNT.ge, _COUNT.lt) else _type(hint.__origin__))
    if get_origin(hint) in (Union, UnionType):
        return _type(_chosen(hint)) + (" or null" if NoneType in get_args(hint) else "")
    if get_origin(hint) in (dict, list) and Any not in get_args(hint):
        what, of, parts = _type(get_args(hint)[-1]).partition(" of ")
        return f"{_WORDS[get_origin(hint)]} of {what}{'' if what[0].isupper() else 's'}{of}{parts}"
    return _WORDS.get(get_origin(hint) or hint) or hint.__name__


def _in(hint: Any) -> str:
    return f" ({_unit(hint)})" if _unit(hint) else ""


def _chosen(hint: Any) -> Any:
    """What a field is that may be missing."""
    (chosen,) = set(get_args(hint)) - {NoneType, UnsetType}
    return chosen


def _default(field: msgspec.structs.FieldInfo) -> str:
    value = field.default if field.default is not NODEFAULT else field.default_factory
    if value is NODEFAULT:
        return ""
    if value == "" or isinstance(value, type | Raw):
        return ", empty"
    words = {str: lambda: f"`{value}`", float: lambda: f"{value:g}", UnsetType: lambda: "absent"}
    return ", " + words.get(type(value), lambda: json.dumps(value))()


# ── columns of a frame ──────────────────────────────────────────────────────────────────────────────────────────────
def _columns(row: type[msgspec.Struct], shown: columns.Columns) -> str:
    hints, meant = get_type_hints(row, include_extras=True), meanings(row)
    return _described(
        {name: columns.ComputedColumn(dtype, _unit(hints[name]), meant[name]) for name, dtype in shown.items()}
    )


def _described(described: Mapping[str, columns.ComputedColumn]) -> str:
    rows = [(f"`{name}`", *column) for name, column in described.items()]
    return _table(("column", "dtype", "unit", "meaning"), *rows)


def _unit(hint: Any) -> str:
    if get_origin(hint) in (Union, UnionType):
        return _unit(_chosen(hint))
    metas = [part for part in getattr(hint, "__metadata__", ()) if isinstance(part, msgspec.Meta)]
    return str(metas[0].extra["unit"]) if metas and metas[0].extra else ""


# ── settings ────────────────────────────────────────────────────────────────────────────────────────────────────────
def _settings() -> str:
    found = groupby(DECLARED.values(), key=lambda one: one.table or one.name)
    rows = [_row_of_table(name) if name in TABLES else _row_of_setting(next(members)) for name, members in found]
    return _table(("variable", "setting", "default", "flag", "allowed", "meaning"), *rows)


def _keys() -> str:
    rows = [_row_of_setting(one) for one in DECLARED.values() if one.table]
    return _table(("variable", "key", "default", "flag", "allowed", "meaning"), *rows)


def _row_of_table(name: str) -> tuple[str, ...]:
    table = FIELDS.tables.by_name[name]
    main = DECLARED.get(name)
    flag = main.flag and f"`{main.flag}`" if main else ""
    return (
        f"`{table.variable}`",
        f"`{name}`",
        _shown(main and main.default),
        flag,
        allowed_of_table(name),
        TABLES[name],
    )


def _row_of_setting(one: Declared) -> tuple[str, ...]:
    return (
        ", ".join(f"`{variable}`" for variable in one.variables),
        f"`{one.dotted}`",
        _shown(one.default),
        one.flag and f"`{one.flag}`",
        allowed(FIELDS[one.name].type),
        one.meaning,
    )


def _shown(value: object) -> str:
    return "-" if value is None else f"`{','.join(value) if isinstance(value, tuple) else value}`"


# ── errors ──────────────────────────────────────────────────────────────────────────────────────────────────────────
def _errors() -> str:
    of_exit = groupby(sorted(error_tree(), key=_exit), key=_exit)
    return _table(
        ("exit", "codes"), *((code, ", ".join(_link(kind.code) for kind in kinds)) for code, kinds in of_exit)
    )


def error_tree(root: type[SwarmError] = SwarmError) -> list[type[SwarmError]]:
    """Every class of error, each before those below it."""
    below = [kind for kind in root.__subclasses__() if kind.__module__ == root.__module__]
    return [root, *(kind for one in below for kind in error_tree(one))]


def _link(code: str) -> str:
    return f"[{code}](#{code.lower()})"


def _exit(kind: type[SwarmError]) -> str:
    return "-" if issubclass(kind, ProtocolError) else str(kind.exit_code)


# ── examples ────────────────────────────────────────────────────────────────────────────────────────────────────────
def _example(message: msgspec.Struct) -> str:
    return _json(json.loads(encode(message)))


def _json(value: Any, indent: str = "", taken: int = 0) -> str:
    """JSON in lines as full as they can be, the first after as many characters as are taken."""
    line = json.dumps(value, ensure_ascii=False)
    if taken + len(line) <= WIDTH or not isinstance(value, dict | list):
        return line
    deeper = indent + "  "
    keys = [json.dumps(key) + ": " for key in value] if isinstance(value, dict) else [""] * len(value)
    values = value.values() if isinstance(value, dict) else value
    lines = [""]
    for key, part in zip(keys, values, strict=True):
        text = key + _json(part, deeper, len(deeper + key) + 1)
        fits = lines[-1] and "\n" not in lines[-1] + text and len(lines[-1] + text) + 3 <= WIDTH
        lines[-1:] = [f"{lines[-1]} {text},"] if fits else [lines[-1], f"{deeper}{text},"]
    opened, closed = "{}" if isinstance(value, dict) else "[]"
    return "\n".join([opened, *lines[1:-1], lines[-1].removesuffix(","), indent + closed])


if __name__ == "__main__":
    for path, content in outputs().items():
        if not path.exists() or path.read_bytes() != content:
            path.write_bytes(content)
            print(f"written: {path.relative_to(ROOT)}")  # noqa: T201
