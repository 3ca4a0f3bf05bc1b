"""Files made by hand: what no mutation of a good one comes upon.

Each maker puts something at a path where a node expects a file. Those that need a right that this process does not have
raise OSError or PermissionError, and are reported as left out.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from tests.conformance.worlds import bind
from tests.fuzz.mutators import ESC

Maker = Callable[[Path], None]
MOST = 8 * 2**20
"""Bytes: the largest file that is read at all."""
HEAD = '{"peer_id":"anna","round":17,"stage":0,"timestamp":1.0,'
ENTRY = '{"prompt":"p","response":"r"}'
INFO = '{"task":"bf","origin":{"task":"bf","profile":"tiny","seed":1,"index":0,"gym_version":"0.1.25"}}'


# ── what is no file ─────────────────────────────────────────────────────────────────────────────────────────────────
def _sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(10 * 2**30)


def _unreadable(path: Path) -> None:
    path.write_bytes(b"{}")
    path.chmod(0)


def _folder_in_the_way(path: Path) -> None:
    path.parent.rmdir()
    path.parent.symlink_to("/etc")


NO_FILES: dict[str, Maker] = {
    "sparse file of 10 GB": _sparse,
    "FIFO": os.mkfifo,
    "socket": bind,
    "device": lambda path: os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(1, 5)),  # /dev/zero: it never ends
    "link to /etc/passwd": lambda path: path.symlink_to("/etc/passwd"),
    "link to a folder": lambda path: path.symlink_to("/etc"),
    "link to itself": lambda path: path.symlink_to(path.name),
    "link to /dev/zero": lambda path: path.symlink_to("/dev/zero"),
    "link to nothing": lambda path: path.symlink_to("nowhere"),
    "folder": Path.mkdir,
    "permission denied": _unreadable,
    "its folder is a link": _folder_in_the_way,
    "its folder is a file": lambda path: (path.parent.rmdir(), path.parent.write_bytes(b""))[0],
    "nothing": lambda path: None,
}


# ── what is no good JSON ────────────────────────────────────────────────────────────────────────────────────────────
def _fill(start: str, unit: str, end: str, size: int = MOST) -> bytes:
    """As many units as fit; a comma at the end of the last one is left out."""
    filled = (unit * ((size - len(start.encode()) - len(end)) // len(unit.encode()))).rstrip(",")
    return (start + filled + end).encode()


def _keys(start: str, value: str, end: str, count: int) -> bytes:
    return (start + ",".join(f'"{i}":{value}' for i in range(count)) + end).encode()[:MOST]


def rollouts(groups: str = f'"0":[{ENTRY},{ENTRY}]', infos: str = f'"0":{INFO}', more: str = "") -> str:
    """A rollout file out of its parts."""
    return HEAD + more + '"rollouts":{' + groups + '},"groups":{' + infos + "}}"


def _contents() -> Iterator[tuple[str, bytes]]:
    good = rollouts()
    yield "a good one", good.encode()
    yield "empty", b""
    yield "a newline", b"\n"
    yield "spaces", b" " * MOST
    yield "BOM", b"\xef\xbb\xbf" + good.encode()
    yield "UTF-16", good.encode("utf-16")
    yield "UTF-32", good.encode("utf-32")
    yield "Latin-1", good.replace("p", "é").encode("latin-1")
    yield "half a character", good.encode() + b"\xe2\x82"
    yield "NUL bytes", b"\0" * 1000
    yield "NUL at the end", good.encode() + b"\0"
    yield "two documents", good.encode() * 2
    yield "a document and a half", good.encode() + b"\n{"
    yield "torn", good.encode()[:-20]
    for name, what in (("null", "null"), ("a number", "1"), ("a text", '"x"'), ("a list", "[]"), ("an object", "{}")):
        yield name, what.encode()
    for name, opening in (("lists", "["), ("objects", '{"a":'), ("both", '[{"a":')):
        for depth in (100, 1_000, 100_000):
            yield f"{depth} {name} deep", (opening * depth).encode()
    yield "deep unknown field", rollouts(more='"x":' + "[" * 50_000 + "]" * 50_000 + ",").encode()
    yield "deep metadata", rollouts(infos=f'"0":{{"task":"bf","metadata":{"[" * 60_000}{"]" * 60_000}}}').encode()
    yield "deep token ids", rollouts(f'"0":[{ENTRY[:-1]},"token_ids":{"[" * 9_000}{"]" * 9_000}}},{ENTRY}]').encode()


def _numbers() -> Iterator[tuple[str, bytes]]:
    odd = ("1e999", "-1e999", "NaN", "Infinity", "-Infinity", "-1", "-0", "0.5", "17.0", "1.7e1", "017", "+17", "0x11")
    large = (
        str(2**53),
        str(2**63),
        str(2**64),
        "9" * 400,
        "9" * 100_000,
        "1" + "0" * 5_000_000,
        "0." + "1" * 5_000_000,
    )
    for number in (*odd, *large, "true", "null", '"17"', "[17]"):
        for field in ("round", "stage", "timestamp", "schema_version"):
            document = json.loads(good_fields())
            document.pop(field, None)
            fields = ",".join(f'"{key}":{json.dumps(value)}' for key, value in document.items())
            yield f"{field} {number[:12]} of {len(number)}", f'{{{fields},"{field}":{number}}}'.encode()
    for number in ("1e999", "9" * 5_000, "9" * 5_000_000, "-9" + "9" * 400):
        hinted = f'{ENTRY[:-1]},"token_ids":[{number}],"logprobs":[{number}]}}'
        yield f"token {number[:8]} of {len(number)}", rollouts(f'"0":[{hinted},{ENTRY}]').encode()
        yield (
            f"seed {number[:8]} of {len(number)}",
            rollouts(infos=f'"0":{INFO}'.replace(":1,", f":{number},")).encode(),
        )
        info = f'"0":{{"task":"bf","metadata":{{"x":{number}}}}}'
        yield f"metadata {number[:8]} of {len(number)}", rollouts(infos=info).encode()


def good_fields() -> str:
    """Enough for each kind of small file, so that one odd number in it is the only thing wrong."""
    fields: dict[str, Any] = dict.fromkeys(("peer_id", "node_id", "node"), "anna") | {"node_role": "worker"}
    fields |= dict.fromkeys(("updated_by", "created_by", "model", "question_id", "prompt"), "c") | {"profile": "tiny"}
    fields |= dict.fromkeys(("experiment", "experiment_name"), "exp") | {"rollouts": {}, "identity": {}, "winners": []}
    fields |= dict.fromkeys(("timestamp", "created_at", "updated_at", "registered_at", "submitted_at", "asked_at"), 1.0)
    fields |= dict.fromkeys(("reward", "my_reward", "cumulative_reward"), 0.5) | {"seed": 1, "total_agents": 1}
    return json.dumps(fields | {"round": 17, "stage": 0, "rounds_done": 18})


def _sizes() -> Iterator[tuple[str, bytes]]:
    pair = f"{ENTRY},{ENTRY}"
    yield "one byte too many", b" " * (MOST + 1)
    yield "lists upon lists in metadata", _fill(rollouts()[:-3] + ',"metadata":{"x":[', "[],", "]}}}}")
    yield "objects in an unknown field", _fill(HEAD + '"x":[', '{"a":1},', '],"rollouts":{}}')
    yield "texts in an unknown field", _fill(HEAD + '"x":[', '"",', '],"rollouts":{}}')
    yield (
        "numbers in metadata",
        _fill(HEAD + '"rollouts":{},"groups":{"0":{"task":"","metadata":{"x":[', "1.5,", "]}}}}"),
    )
    yield "token ids", _fill(HEAD + f'"rollouts":{{"0":[{ENTRY},{ENTRY[:-1]},"token_ids":[', "1,", "]}]}}")
    hint = '"token_ids":[' + "1," * 32_767 + '1],"logprobs":[' + "-1," * 32_767 + "-1]"
    hinted = ",".join([f"{ENTRY[:-1]},{hint}}}"] * 48)
    yield "all the tokens that fit", rollouts(f'"0":[{hinted}]').encode()
    yield "completions", _fill(HEAD + '"rollouts":{"0":[', ENTRY + ",", "]}}")
    yield "completions below the brackets", _fill(HEAD + '"rollouts":{"0":[', ENTRY + ",", "]}}", size=3_600_000)
    yield "100,000 groups", rollouts(",".join(f'"{i}":[]' for i in range(100_000)), infos="").encode()
    yield "100,000 infos", rollouts(infos=",".join(f'"{i}":{{"task":""}}' for i in range(100_000))).encode()
    yield "100,000 completions", rollouts(f'"0":[{",".join([ENTRY] * 100_000)}]').encode()
    yield "1,024 groups of two", rollouts(",".join(f'"{i}":[{pair}]' for i in range(1024))).encode()
    yield "the same group again and again", _fill(HEAD + '"rollouts":{', f'"0":[{pair}],', "}}")
    yield "the same field again and again", _fill(HEAD, '"peer_id":"anna",', '"rollouts":{}}')
    yield "the same prompt again and again", _fill(HEAD + '"rollouts":{"0":[{', '"prompt":"p",', '"response":""}]}}')
    yield "unknown fields by the hundred thousand", _keys(HEAD, "0", ',"rollouts":{}}', 500_000)
    for name, unit in (("escapes", "\\u0041"), ("letters", "A"), ("emoji", "\U0001f600"), ("quotes", '\\"')):
        yield f"a text of {name}", _fill(f'{HEAD}"rollouts":{{"0":[{ENTRY},{{"prompt":"p","response":"', unit, '"}]}}')
    yield (
        "a response of four million letters",
        rollouts(f'"0":[{ENTRY},{ENTRY.replace("r", "A" * 4_300_000)}]').encode(),
    )
    yield "a key of eight million letters", _fill(HEAD + '"rollouts":{"', "A", '":[]}}')
    yield (
        "a prompt of eight million letters, twice",
        rollouts(
            f'"0":[{",".join([ENTRY.replace(":" + chr(34) + "p", ":" + chr(34) + "A" * 4_000_000)] * 2)}]'
        ).encode(),
    )


def _structures() -> Iterator[tuple[str, bytes]]:
    pair = f"{ENTRY},{ENTRY}"
    for key in ("00", "-1", "١", "1.0", "", " 0", "0x0", "999999", "9999999", "9" * 5_000, "a", "\\u0030", ESC_JSON):
        yield f"group key {key[:8]}", rollouts(f'"{key}":[{pair}]', infos=f'"{key}":{INFO}').encode()
    yield "ragged", rollouts(f'"0":[{pair}],"1":[{pair},{ENTRY}]', f'"0":{INFO},"1":{INFO}').encode()
    yield "one completion", rollouts(f'"0":[{ENTRY}]').encode()
    yield "none", rollouts('"0":[]').encode()
    yield "no group", rollouts("").encode()
    yield "two prompts", rollouts(f'"0":[{ENTRY},{ENTRY.replace("p", "q")}]').encode()
    for field, value in (("peer_id", '"ben"'), ("peer_id", '"../anna"'), ("round", "16"), ("stage", "1")):
        yield f"another {field} {value}", rollouts(more=f'"{field}":{value},').encode()
    for version in ("0", "2", "-1", "9" * 30, '"1"', "1.0", "null", "true", "[]"):
        yield f"version {version[:8]}", rollouts(more=f'"schema_version":{version},').encode()
    yield "lone surrogates", rollouts(f'"0":[{pair}]'.replace('"r"', '"\\ud800"')).encode()
    yield "surrogates in a key", rollouts(f'"\\udfff":[{pair}]').encode()
    yield "escapes in every text", rollouts(pair.join(['"0":[', "]"])).replace('r"}', ESC_JSON + '"}').encode()
    yield "no origin and an answer", rollouts(infos='"0":{"task":"bf","answer":"1"}').encode()
    yield "no info", rollouts(infos="").encode()


ESC_JSON = json.dumps(ESC)[1:-1]


def _terminal() -> Iterator[tuple[str, bytes]]:
    """For what is shown to people: every text and every name is an escape sequence, raw where JSON allows it."""
    texts = {key: ESC if isinstance(value, str) else value for key, value in json.loads(good_fields()).items()}
    shown = {**texts, "peer_id": "anna", "refused_files": {ESC: 1}, "event": ESC, "level": ESC, "exception": ESC}
    for raw in (True, False):
        yield f"escape sequences, raw {raw}", json.dumps({**shown, ESC: ESC}, ensure_ascii=not raw).encode() + b"\n"
    yield "escape sequences and no JSON", ESC.encode() + b"\n" + b"\x1b[31m\xff\n"
    yield "lines without end", b"x" * (MOST - 1)
    yield "a line of eight million letters", b'{"event":"' + b"x" * (MOST - 20) + b'"}\n'
    yield "a million empty lines", b"\n" * 10**6
    yield "events that are no texts", b'{"event":[1],"level":3}\n{"event":{"a":"\\u001b[2J"},"timestamp":1e300}\n'
    yield (
        "times of no calendar",
        b"".join(b'{"timestamp":%s}\n' % t for t in (b"1e300", b"-1e300", b"-1", b"253402300800")),
    )


def strange_files(folder: Path) -> Iterator[tuple[str, Maker]]:
    """Every kind by name, with what makes it. What is a file lies once in `folder` and is linked to."""
    yield from NO_FILES.items()
    for source in (_contents, _numbers, _structures, _sizes, _terminal):
        for name, data in source():
            file = folder / "strange"
            file.write_bytes(data)
            yield name, partial(os.link, file)
            file.unlink()
