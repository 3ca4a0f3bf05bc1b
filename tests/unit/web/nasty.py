"""A place in which every text that a peer may write holds what no terminal and no page should obey.

The texts are found by the types of the wire's structs: a field that is new is filled as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
from msgspec import inspect

from swarm.errors import ProtocolError
from swarm.types import RoundKey
from swarm.wire.codec import decode, encode
from tests.layout import Layout
from tests.unit.views.factories import START, append, make_event
from tests.unit.web.web_factory import make_shown
from tests.unit.wire.forms import FORMS

MARKS = "\u202e\x1b[31m\x9b\u200b\u2066\x07\u2028"
"""Marks of direction, C0 and C1 controls, a character without width, a line end."""
WORD = "evil"
NASTY = f"{WORD}{MARKS}"
NODE, ROUND = "alice", 2
OWN = {"peer_id": NODE, "node_id": NODE, "node": NODE, "experiment_name": "exp", "experiment": "exp", "round": ROUND}
"""What says whose a file is and where it lies: with anything else in it it is refused."""
KEPT = {"stage": 0, "schema_version": 1, "rounds_done": ROUND, "node_role": "worker", "role": "worker"}
DIGESTS = ("earlier", "parts")
"""Of a file of rollouts: names of other files by their digests, which nobody shows."""
Accepts = Callable[[Any], bool]


def dirtied(form: type[msgspec.Struct], golden: msgspec.Struct) -> bytes:
    """A file of a form, whose every text that may be one is nasty."""
    whole = msgspec.json.decode(encode(golden))
    fixed = {name: value for name, value in (OWN | KEPT).items() if name in whole}

    def accepts(document: Any) -> bool:
        with suppress(ProtocolError):
            decode(msgspec.json.encode(document), form, "it")
            return document.items() >= fixed.items()
        return False

    made = _dirty(inspect.type_info(form), whole | fixed, accepts)
    for name in DIGESTS:
        made.pop(name, None)
    return encode(decode(msgspec.json.encode(made), form, "it"))


def _dirty(kind: inspect.Type, value: Any, accepts: Accepts) -> Any:
    """The value with every text in it made nasty, one after the other, as far as the whole is accepted."""
    match kind:
        case inspect.Metadata(type=of):
            return _dirty(of, value, accepts)
        case inspect.StrType() if isinstance(value, str):
            return next((text for text in (NASTY, f"{value}{NASTY}") if accepts(text)), value)
        case inspect.StructType(fields=fields) if isinstance(value, dict):
            for field in fields:
                name = field.encode_name
                with suppress(LookupError, TypeError, StopIteration):
                    value = _placed(value, name, value[name] if name in value else _made(field.type), accepts)
                    value |= {name: _dirty(field.type, value[name], _within(value, name, accepts))}
        case inspect.DictType(value_type=of) if isinstance(value, dict):
            for name in list(value):
                value |= {name: _dirty(of, value[name], _within(value, name, accepts))}
                more = value | {NASTY: value[name]}
                value = more if accepts(more) else value
        case inspect.ListType(item_type=of) if isinstance(value, list):
            for place in range(len(value)):
                here = value[:place], value[place + 1 :]
                value = [*here[0], _dirty(of, value[place], lambda v, h=here: accepts([*h[0], v, *h[1]])), *here[1]]
        case inspect.UnionType(types=types):
            for one in types:
                value = _dirty(one, value, accepts)
        case inspect.AnyType():
            return next((v for v in ({NASTY: [NASTY, {NASTY: NASTY}]}, NASTY, value) if accepts(v)), value)
    return value


def _placed(value: dict[str, Any], name: str, new: Any, accepts: Accepts) -> dict[str, Any]:
    """Raises LookupError: it may not be there."""
    if name in value or accepts(value | {name: new}):
        return value | {name: new}
    raise LookupError(name)


def _within(value: dict[str, Any], name: str, accepts: Accepts) -> Accepts:
    return lambda new: accepts(value | {name: new})


def _made(kind: inspect.Type) -> Any:
    """Some value of a type. Raises TypeError: it knows none."""
    match kind:
        case inspect.Metadata(type=of):
            return _made(of)
        case inspect.StrType():
            return "x"
        case inspect.BoolType():
            return True
        case inspect.IntType():
            return 1
        case inspect.FloatType():
            return 0.5
        case inspect.ListType(item_type=of):
            return [_made(of)]
        case inspect.DictType(key_type=name, value_type=of):
            return {_made(name): _made(of)}
        case inspect.StructType(fields=fields):
            return {field.encode_name: _made(field.type) for field in fields}
        case inspect.UnionType(types=types):
            return next(_made(one) for one in types if not isinstance(one, inspect.NoneType | inspect.CustomType))
    raise TypeError(kind)


def every_form() -> Iterator[tuple[str, bytes]]:
    """The golden file's name and what is nasty of its form."""
    for name, golden in FORMS.items():
        yield name, dirtied(type(golden), golden)


def make_nasty(path: Path) -> Layout:
    """The experiment `exp`, in which `alice` is a stranger."""
    layout = make_shown(path)
    key = RoundKey(ROUND)
    lines = {
        "metrics.jsonl": layout.metrics_file(NODE),
        "starts.jsonl": layout.logs / NODE / "starts.jsonl",
        "judge.jsonl": layout.judge_file,
    }
    files = {
        "state.json": [layout.state_file],
        "peer.json": [layout.peer_file(NODE)],
        "experiment.json": [layout.experiment_file],
        "rollouts": [layout.rollout_file(key, NODE)],
        "reward": [layout.reward_file(key, NODE)],
        "winners.json": [layout.winners_file(ROUND, NODE)],
        "judge_question.json": [layout.judge_question_file(ROUND, NODE)],
        "judge_answer.json": [layout.judge_answer_file(ROUND, NODE)],
        "completions": [layout.root / "completions" / f"round_{ROUND}" / f"{NODE}.json"],
        "node_state.json": [layout.checkpoint(ROUND, NODE) / "node.json"],
        "cleaned.json": [layout.root / "cleaned.json"],
        "archive.json": [],
    }
    for name, data in every_form():
        if name in lines:
            append(lines[name], data.strip())
            continue
        for file in files[next(start for start in files if name.startswith(start))]:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(data)
    event = make_event(NASTY, START + 9, "warning", reason=NASTY, **{NASTY: {NASTY: [NASTY]}}, exception=f"{NASTY}\nx")
    append(layout.events_file(NODE), msgspec.json.encode(event | {"node_id": NODE, "logger": NASTY}))
    append(layout.stdout_file(NODE), NASTY.encode())
    return layout


def texts_of(document: Any) -> Iterator[str]:
    """All texts of a JSON value, names included."""
    match document:
        case str():
            yield document
        case dict():
            for name, entry in document.items():
                yield name
                yield from texts_of(entry)
        case list():
            for entry in document:
                yield from texts_of(entry)
