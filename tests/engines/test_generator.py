"""A node that only generates, on a server with faults: no round is lost, spending is capped, the key is nowhere."""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.engines.stub_openai import (
    Fault,
    Handler,
    Stub,
    hanging,
    huge,
    killed,
    raw,
    refused,
    reply_to,
    serving,
    shaped,
    throttled,
)
from tests.integration.swarms import daemons, environment, events, eventually, rows, run_swarm

pytestmark = [pytest.mark.engine, pytest.mark.xdist_group("generator")]

KEY = "sk-3f9ab-not-to-be-found-anywhere"
ROUNDS = 12
RUN = {"SWARM_TASKS": "basic_arithmetic", "MAX_ROUNDS": ROUNDS, "SWARM_EXPECTED_WORKERS": "anna"}


def knowing() -> Fault:
    """Right in every second reply, so that groups are informative."""
    turn = itertools.count()

    def answer(handler: Handler, body: dict[str, Any]) -> None:
        asked = body["prompt"] if "prompt" in body else body["messages"][-1]["content"]
        (terms,) = re.findall(r"Calculate ([-+ \d]+)\.", asked)[-1:] or ("0",)
        right = sum(int(term.replace(" ", "")) for term in re.findall(r"[-+]? ?\d+", terms))
        handler.give_json(reply_to(body, f"<answer>{right if next(turn) % 2 else 'x'}</answer>"))

    return answer


def endpoint(stub: Stub, **more: object) -> str:
    quick = {"patience": 5, "request_timeout": 2, "backoff": 0.05, "breaker_rest": 0.2, "key_variable": "MY_KEY"}
    return json.dumps({"base_url": stub.url, "model": "teacher", "api": "chat", **quick, **more})


def generator(tmp_path: Path, stub: Stub, **more: object) -> dict[str, str]:
    asked = {"NODE_ROLE": "generator", "NODE_ID": "teacher", "SWARM_ENDPOINT": endpoint(stub, **more)}
    return environment(tmp_path, **RUN, **asked) | {"MY_KEY": KEY}


FAULTS = (
    *(killed, throttled(0), hanging, raw(b"\x00\xffno json"), shaped({"choices": []}), refused(500, "oops")),
    *(shaped([[[1]]]), huge, throttled("x"), shaped({"choices": [{"message": {"content": 5}}]})),
)


def test_a_server_with_every_fault_costs_no_round_and_no_key_and_an_awaited_generator_beside_it_is_trained_on(
    tmp_path: Path,
) -> None:
    plan = [fault for fault in FAULTS for _ in range(3)]
    env = environment(tmp_path, **RUN)
    with serving(*plan, then=knowing()) as stub, serving(then=knowing()) as sound, daemons() as start:
        swarm = [start("swarm", env | role, "node") for role in ({"NODE_ROLE": "coordinator"}, {"NODE_ID": "anna"})]
        licensed = {"NODE_ID": "tutor", "SWARM_AWAITED": "True", "SWARM_LICENCE": "CC0-1.0"}
        swarm.append(start("swarm", generator(tmp_path, sound) | licensed, "node"))
        teacher = start("swarm", generator(tmp_path, stub), "node")
        command = eventually(lambda: Path(f"/proc/{teacher.process.pid}/cmdline").read_bytes(), "its command line")
        assert [daemon.wait() for daemon in (*swarm, teacher)] == [0] * 4
        asked = len(stub.asked)
        assert all(one.headers["authorization"] == f"Bearer {KEY}" for one in stub.asked)
    done = rows(tmp_path, "anna")
    assert [row["round"] for row in done] == list(range(ROUNDS))
    assert not any(row["gather_timed_out"] or row["refused_files"] for row in done)
    learned = [row for row in done if "tutor" in row["external_by_peer"]]
    assert learned
    assert all(row["external_by_licence"]["CC0-1.0"] == row["external_by_peer"]["tutor"] for row in learned)
    billed = [row for row in rows(tmp_path, "teacher") if "endpoint_requests" in row]
    assert billed
    assert sum(row["endpoint_requests"] for row in billed) <= asked
    secret = KEY.encode()
    assert not [file for file in tmp_path.rglob("*") if file.is_file() and secret in file.read_bytes()]
    assert secret not in command
    assert KEY not in teacher.output
    assert run_swarm(env, "validate").returncode == 0
    shown = run_swarm(env, "status").stdout
    assert re.search(r"^teacher +generator", shown, re.MULTILINE), shown


def spent(path: Path) -> int:
    """Tokens that the rows of the generator tell."""
    return sum(row["endpoint_tokens_in"] + row["endpoint_tokens_out"] for row in rows(path, "teacher"))


def test_a_cap_ends_the_generator_and_a_restart_spends_nothing_more(tmp_path: Path) -> None:
    alone = {"MAX_ROUNDS": "200", "SWARM_CLOCK": "own", "SWARM_EXPECTED_WORKERS": ""}
    with serving(then=knowing()) as stub, daemons() as start:
        env = generator(tmp_path, stub, cap_tokens=4_000, max_tokens=16) | alone
        assert start("swarm", env, "node").wait() == 0
        assert [one["event"] for one in events(tmp_path, "teacher", "endpoint.spent")] == ["endpoint.spent"]
        assert 2_000 < spent(tmp_path) <= 4_000
        asked = len(stub.asked)
        assert start("swarm", env, "node").wait() == 0
        assert spent(tmp_path) <= 4_000, "what it spent before counts"
        assert len(stub.asked) - asked < asked / 4, "a look at the start, and what the cap left"
