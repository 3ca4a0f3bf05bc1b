"""The candidate: runs an answer's code, and then the calls that come, until it is killed."""

from __future__ import annotations

import io
import random
import sys
from collections.abc import Callable
from typing import Any

from swarm.tasks.bounded import Emit
from swarm.tasks.dataset.code import plain

_FENCE = "```"


def code_of(answer: str) -> str:
    """Returns an answer without the fence around it, if it has one."""
    lines = answer.strip().splitlines()
    if len(lines) > 1 and lines[0].startswith(_FENCE) and lines[-1].strip() == _FENCE:
        return "\n".join(lines[1:-1])
    return answer


def serve(receive: Callable[[], bytes], send: Emit) -> None:
    """Execute the code that the first message is, then call its functions as asked."""
    source = receive().decode()
    sys.stdout = io.StringIO()
    random.seed(0)
    found: dict[str, Any] = {"__name__": "answer"}
    exec(compile(source, "<answer>", "exec"), found)  # in a child behind all bars alone: see swarm.tasks.trial
    while True:
        name, arguments, named = plain.unpack(receive())
        send(_outcome(found, name, arguments, named))


def _outcome(found: dict[str, Any], name: str, arguments: list[Any], named: dict[str, Any]) -> bytes:
    try:
        if name not in found:
            raise NameError(name)
        return plain.pack(("returned", found[name](*arguments, **named)))
    except BaseException as error:  # noqa: BLE001 - the boundary: code of anybody's
        return plain.pack(("raised", type(error).__name__))
