"""Programs beside a swarm, which nothing that becomes of them stops."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import anyio
import pytest

from swarm.children import code_command
from swarm.cli import supervisor
from swarm.cli.local_swarm import local_swarm
from swarm.cli.supervisor import ProgramBeside, ProgramsBeside, programs_beside
from swarm.config import Settings
from swarm.entry_points import EntryPoint
from swarm.errors import ConfigError
from tests.integration.swarms import eventually
from tests.patience import PATIENCE

SETTINGS = Settings(path="/p", hub_token="hf_secret", threads=1).with_values({"push_repo": "lab/x"})
SAYS_WHEN_ENDED = """
import signal, sys, threading
asked = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: asked.set())
print("up", flush=True)
asked.wait()
print("swarm: pushed the last", flush=True)
"""
HEARS_NOTHING = """
import signal, threading
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("up", flush=True)
threading.Event().wait()
"""


def run_beside(
    monkeypatch: pytest.MonkeyPatch,
    *codes: str,
    until: str = ": up",
    patience: float = PATIENCE,
    environ: dict[str, str] | None = None,
) -> None:
    """Run programs of this code beside a swarm that is over as soon as so many lines as programs say `until`."""
    spoken, left = anyio.Event(), len(codes)

    def hearing(voice: Callable[[str], None]) -> Callable[[str], None]:
        def hear(line: str) -> None:
            nonlocal left
            voice(line)
            left -= until in line
            if left == 0:
                spoken.set()

        return hear

    monkeypatch.setattr(supervisor, "RESTART_PAUSES", (0.0, 0.0))
    monkeypatch.setattr(supervisor, "say", hearing(supervisor.say))
    monkeypatch.setattr(supervisor, "warn", hearing(supervisor.warn))
    programs = [ProgramBeside(f"program {n}", (code,), {"GIVEN": "given"}) for n, code in enumerate(codes)]
    play(monkeypatch, ProgramsBeside(programs, environ or {}, patience), spoken.wait)


def play(monkeypatch: pytest.MonkeyPatch, programs: ProgramsBeside, until: Callable[[], Awaitable[None]]) -> None:
    """Run programs, whose words are their code, until something has come about."""
    monkeypatch.setattr(supervisor, "module_command", lambda _, code: code_command(code))

    async def main() -> None:
        with anyio.fail_after(PATIENCE):
            async with programs.running():
                await until()

    anyio.run(main)


def test_all_are_asked_to_end_with_the_swarm_and_heard_to_the_last_word_and_one_that_does_not_end_is_killed_and_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run_beside(monkeypatch, HEARS_NOTHING, SAYS_WHEN_ENDED, patience=1.0)
    said = capsys.readouterr()
    assert "program 1: pushed the last" in said.out
    assert "ended before they were done: program 0" in said.err


@pytest.mark.parametrize(("code", "says"), [(143, False), (1, True)])
def test_a_quiet_one_shows_its_last_words_where_it_fails_and_a_patient_one_has_all_the_time_it_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], code: int, says: bool
) -> None:
    ready = tmp_path / "ready"
    up = SAYS_WHEN_ENDED.replace("asked.wait()", f"open({str(ready)!r}, 'w').close(); asked.wait()")
    late = f"import time; time.sleep(0.5); print('left over', flush=True); sys.exit({code})"
    program = ProgramBeside("mirror", (up + late,), {}, quiet=True, patient=True)
    there = partial(anyio.to_thread.run_sync, eventually, ready.exists, "the program")
    play(monkeypatch, ProgramsBeside([program], {}, patience=0.1), there)
    said = capsys.readouterr()
    assert ("mirror: left over" in said.out) == says
    assert "ended before they were done" not in said.err


def test_one_that_fails_starts_again_and_in_the_end_is_left_to_people(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run_beside(monkeypatch, "print('up'); raise SystemExit(3)", until="by hand: swarm ")
    said = capsys.readouterr()
    assert said.out.count("program 0: up") == 3
    assert said.err.count("ended with exit code 3; the swarm goes on") == 3


def test_it_gets_its_own_settings_and_none_of_the_surrounding_ones(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = "import os; print('up', os.environ['GIVEN'], os.environ['HF_TOKEN'], os.environ.get('SEED'))"
    run_beside(monkeypatch, shown, environ={"SEED": "7", "HF_TOKEN": "t"})
    assert "program 0: up given t None" in capsys.readouterr().out


def test_a_plugin_that_is_on_and_cannot_be_imported_is_refused_before_anything_starts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    swarm = local_swarm(SETTINGS, 2)
    gone = EntryPoint("swarm-sapo", "swarm.beside", "hub", "swarm.plugins.gone:programs")
    monkeypatch.setattr("swarm.entry_points.bundled", lambda _: {"hub": gone})
    with pytest.raises(ConfigError, match=r"hub \(swarm.beside\) of swarm-sapo cannot be had"):
        programs_beside(swarm.settings, swarm.worker_names)


def test_without_such_a_setting_nothing_runs_beside_and_nodes_never_hear_of_it() -> None:
    assert programs_beside(SETTINGS.with_values({"push_repo": None}), ["worker-0"]) == []
    swarm = local_swarm(SETTINGS, 2)
    assert {node.value("push_repo") for node in (*swarm.workers, *swarm.coordinators)} == {None}


def test_they_give_way_to_nodes(tmp_path: Path) -> None:
    async def main() -> str:
        code = "import os, sys; sys.stdin.read(); print(os.getpriority(os.PRIO_PROCESS, 0))"
        async with await anyio.open_process(code_command(code)) as process:
            supervisor.give_way(process.pid)
            assert process.stdin is not None
            assert process.stdout is not None
            await process.stdin.aclose()
            return (await process.stdout.receive()).decode()

    assert int(anyio.run(main)) >= supervisor.NICENESS
