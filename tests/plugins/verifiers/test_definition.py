"""Tables of environments, as nodes read them: nothing of an environment is imported there."""

from __future__ import annotations

import asyncio
import importlib.metadata
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from swarm.config import Settings
from swarm.config.own_code import TASK_TABLE, OwnCode, names_code, plain
from swarm.errors import ConfigError
from swarm.extras import installed_by
from swarm.plugins.verifiers.loop import PlainLoop, StuckError
from swarm.provenance import own_plugins
from swarm.tasks.registry import Families, complete
from tests.unit.tasks.family_contract import is_light_and_its_questions_say_where_they_come_from

KNOWN = {"verifiers": OwnCode("wordle"), "source_sha256": "a" * 64, "sha256": "b" * 64}


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The library, at 0.4.0, as far as nodes can tell."""
    real = importlib.metadata.version
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "0.4.0" if name == "verifiers" else real(name))


def test_the_family_keeps_what_every_family_keeps_and_its_code_counts_in_what_a_run_is_made_with() -> None:
    is_light_and_its_questions_say_where_they_come_from("verifiers")
    assert own_plugins(Settings(task_table={"w": KNOWN})) == ("verifiers",)


def test_who_has_no_library_is_told_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", missing)
    for attempt in (lambda: complete({"w": KNOWN}, Path()), lambda: Families((), {"w": KNOWN})):
        with pytest.raises(ConfigError) as raised:
            attempt()
        assert f"needs the library verifiers, not installed: {installed_by('verifiers')}" in str(raised.value)


@pytest.mark.usefixtures("installed")
def test_versions_settings_and_digests_are_other_tasks() -> None:
    ours = Families((), {"w": KNOWN})
    assert ours.versions == {"verifiers": "1+verifiers-0.4.0"}
    others = ({"args": {"seed": 1}}, {"env": {"x": 1}}, {"turns": 3}, {"sha256": "c" * 64}, {"source_sha256": "c" * 64})
    profiles = [tuple(Families((), {"w": KNOWN | other}).profiles()) for other in ({}, *others)]
    assert len(set(profiles)) == len(profiles)
    assert "verifiers.v1" not in sys.modules


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    ("table", "problem"),
    [
        ({"verifiers": OwnCode("../x")}, "must be the id of an installed environment"),
        ({"turns": 17}, "turns must be 1 to 16, got 17"),
        ({"rows": -1}, "rows must be"),
        ({"held_out": 1.0}, "held_out must be a share"),
        ({"best": -1.0}, "best must be a number above 0"),
        ({"args": {"id": "other"}}, "got args.id"),
        ({"env": {"taskset": {}}}, "stand in args"),
        ({"sha256": "x"}, "sha256 must be 64 hexadecimal digits"),
        ({"arguments": {}}, r"unknown parameter 'arguments'"),
    ],
)
def test_what_cannot_be_is_said(table: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigError, match=rf"\[tasks\.w\]: .*{problem}"):
        complete({"w": KNOWN | table}, Path())


@pytest.mark.usefixtures("installed")
def test_a_complete_table_starts_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("swarm.plugins.verifiers.family.subprocess", None)
    assert complete({"w": KNOWN}, Path()) == {"w": KNOWN}


def test_an_environment_is_code_that_no_shared_place_may_name() -> None:
    assert [*names_code(TASK_TABLE, {"w": plain(KNOWN)})] == ["wordle"]


# ── an event loop without sockets, threads or a clock ───────────────────────────────────────────────────────────────
def run(main: Coroutine[Any, Any, Any]) -> Any:
    return PlainLoop().run(main, lambda: False)  # type: ignore[abstract]


def test_who_sleeps_wakes_in_order_and_no_time_passes() -> None:
    async def main() -> list[int]:
        woken: list[int] = []

        async def sleeper(seconds: int) -> None:
            await asyncio.sleep(seconds)
            woken.append(seconds)

        async with asyncio.timeout(5_000), asyncio.TaskGroup() as group:
            for seconds in (300, 100, 200):
                group.create_task(sleeper(seconds))
        return woken

    begun = time.monotonic()
    assert run(main()) == [100, 200, 300]
    assert time.monotonic() - begun < 60


@pytest.mark.parametrize(
    ("wanted", "error"),
    [
        (lambda: asyncio.to_thread(int), NotImplementedError),
        (lambda: asyncio.open_connection("localhost", 9), NotImplementedError),
        (lambda: asyncio.wait_for(asyncio.sleep(2), 1), TimeoutError),
        (lambda: asyncio.get_running_loop().create_future(), StuckError),  # which waits for nothing
    ],
    ids=["a thread", "a socket", "too long", "stuck"],
)
def test_what_is_not_to_be_had_is_told_so(wanted: Callable[[], Awaitable[Any]], error: type[Exception]) -> None:
    async def main() -> None:
        await wanted()

    with pytest.raises(error):
        run(main())


def test_it_pauses_where_it_is_told_to() -> None:
    said: list[str] = []

    async def main() -> None:
        said.append("first")
        await asyncio.get_running_loop().create_future()

    paused = main()
    assert PlainLoop().run(paused, lambda: bool(said)) is None  # type: ignore[abstract]
    paused.close()
