"""`json`: the answer is JSON of the same value as the column's; with `schema = true`, JSON that its schema allows.

Numbers are equal by value (1 and 1.0), and true is no 1. Names of an object may come in any order, and none twice.

JSON schemas, the part that answers need (https://json-schema.org/draft/2020-12): what is not here is refused.

    any        type, enum, const, anyOf, allOf, oneOf, not, true, false
    object     properties, required, additionalProperties, minProperties, maxProperties
    array      items, minItems, maxItems
    string     minLength, maxLength, pattern
    number     minimum, maximum, exclusiveMinimum, exclusiveMaximum

Without meaning here, as there: title, description, default, examples, $schema, $id, $comment, format.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sized
from typing import Any

from swarm.tasks.dataset.scorers import ScorerFunctions, ScorerRow
from swarm.tasks.dataset.strict_json import equal, loads


def score(row: ScorerRow, answer: str) -> float:
    """1 for an equal value, or a valid one."""
    try:
        value = loads(answer)
    except ValueError:
        return 0.0
    wanted = _wanted(row)
    return float(allows(wanted, value) if row.options.get("schema") else equal(value, wanted))


def check(row: ScorerRow) -> None:
    """Raises ValueError where the column is neither JSON nor a schema."""
    wanted = _wanted(row)
    if row.options.get("schema"):
        check_schema(wanted)


def own(row: ScorerRow) -> str:
    """Returns the column's value as a completion would write it."""
    return row.truth if isinstance(row.truth, str) else json.dumps(row.truth, ensure_ascii=False)


def _wanted(row: ScorerRow) -> Any:
    """Text is JSON; what a file of JSON lines has nested is its value."""
    return loads(row.truth) if isinstance(row.truth, str) else row.truth


JSON = ScorerFunctions(score, check, own)


# ── schemas ─────────────────────────────────────────────────────────────────────────────────────────────────────────
Rule = Callable[[Any, Any], bool]

_SILENT = {"title", "description", "default", "examples", "$schema", "$id", "$comment", "format"}


def allows(schema: Any, value: Any) -> bool:
    """Tells whether the value is valid under a schema that `check` has taken."""
    if isinstance(schema, bool):
        return schema
    return all(rule(schema[keyword], value) for keyword, rule in _RULES.items() if keyword in schema) and _no_others(
        schema, value
    )


def check_schema(schema: Any) -> None:
    """Raises ValueError where it is no schema, or has more than this part of the language."""
    if isinstance(schema, bool):
        return
    if not isinstance(schema, dict):
        raise ValueError(f"expected a JSON schema, which is an object, got {schema!r:.80}")
    for keyword, given in schema.items():
        if keyword in _SILENT:
            continue
        if keyword not in _EXPECTED:
            raise ValueError(f"the schema's {keyword!r:.80} is not understood here; known are {', '.join(_EXPECTED)}")
        try:
            _EXPECTED[keyword](given)
        except (TypeError, AttributeError, re.error, OverflowError, RecursionError):
            raise ValueError(f"the schema's {keyword} cannot be {given!r:.80}") from None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_TYPES: Mapping[str, Callable[[Any], bool]] = {
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "number": _is_number,
    "integer": lambda value: _is_number(value) and value == int(value),
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
}


def _of_type(names: Any, value: Any) -> bool:
    return any(_TYPES[name](value) for name in ([names] if isinstance(names, str) else names))


def _properties(schemas: Any, value: Any) -> bool:
    return not isinstance(value, dict) or all(allows(schemas[n], value[n]) for n in schemas if n in value)


def _no_others(schema: Mapping[str, Any], value: Any) -> bool:
    if not isinstance(value, dict):
        return True
    others = schema.get("additionalProperties", True)
    return all(allows(others, value[name]) for name in value if name not in schema.get("properties", {}))


def _size(kind: type[Sized], holds: Callable[[int, int], bool]) -> Rule:
    return lambda bound, value: not isinstance(value, kind) or holds(len(value), bound)


def _range(holds: Callable[[float, float], bool]) -> Rule:
    return lambda bound, value: not _is_number(value) or holds(value, bound)


_RULES: Mapping[str, Rule] = {
    "type": _of_type,
    "enum": lambda values, value: any(equal(one, value) for one in values),
    "const": equal,
    "anyOf": lambda schemas, value: any(allows(schema, value) for schema in schemas),
    "allOf": lambda schemas, value: all(allows(schema, value) for schema in schemas),
    "oneOf": lambda schemas, value: sum(allows(schema, value) for schema in schemas) == 1,
    "not": lambda schema, value: not allows(schema, value),
    "properties": _properties,
    "required": lambda names, value: not isinstance(value, dict) or all(name in value for name in names),
    "minProperties": _size(dict, int.__ge__),
    "maxProperties": _size(dict, int.__le__),
    "items": lambda schema, value: not isinstance(value, list) or all(allows(schema, item) for item in value),
    "minItems": _size(list, int.__ge__),
    "maxItems": _size(list, int.__le__),
    "minLength": _size(str, int.__ge__),
    "maxLength": _size(str, int.__le__),
    "pattern": lambda pattern, value: not isinstance(value, str) or re.search(pattern, value) is not None,
    "minimum": _range(lambda value, bound: value >= bound),
    "maximum": _range(lambda value, bound: value <= bound),
    "exclusiveMinimum": _range(lambda value, bound: value > bound),
    "exclusiveMaximum": _range(lambda value, bound: value < bound),
}


def _expect(holds: Callable[[Any], bool]) -> Callable[[Any], None]:
    def expect(given: Any) -> None:
        if not holds(given):
            raise TypeError

    return expect


def _each(schemas: Any) -> None:
    _expect(lambda given: isinstance(given, list) and len(given) > 0)(schemas)
    for schema in schemas:
        check_schema(schema)


def _each_value(schemas: Any) -> None:
    for schema in schemas.values():
        check_schema(schema)


_type = _expect(lambda given: all(name in _TYPES for name in ([given] if isinstance(given, str) else given)))
_list = _expect(lambda given: isinstance(given, list))
_names = _expect(lambda given: isinstance(given, list) and all(isinstance(name, str) for name in given))
_count = _expect(lambda given: type(given) is int and given >= 0)
_number = _expect(_is_number)

_EXPECTED: Mapping[str, Callable[[Any], object]] = {
    "type": _type,
    "enum": _list,
    "const": lambda _: None,
    "required": _names,
    "pattern": re.compile,
    **dict.fromkeys(("anyOf", "allOf", "oneOf"), _each),
    **dict.fromkeys(("not", "items", "additionalProperties"), check_schema),
    "properties": _each_value,
    **dict.fromkeys(("minProperties", "maxProperties", "minItems", "maxItems", "minLength", "maxLength"), _count),
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), _number),
}
