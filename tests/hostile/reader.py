"""A node as far as a peer's file gets: the folder, the intake and real scoring children, and nothing else."""

from __future__ import annotations

import math
import os
import resource
from collections.abc import Set
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Self

import anyio
from anyio.from_thread import start_blocking_portal

from swarm.config import Settings
from swarm.config.settings import LimitsTable
from swarm.node.process.wiring import make_context
from swarm.node.sharing.examination import FileNews
from swarm.node.sharing.intake import Intake
from swarm.tasks.bounded import Limits
from swarm.tasks.gym.profiles import SAPO_TASKS
from swarm.tasks.scoring import Scorer
from swarm.tasks.universe import Universe
from swarm.types import RoundKey, ScoredGroup
from tests.layout import Layout
from tests.unit.node.intakes import AnyQuestions, everything

TIMEOUT_S = 100.0


class Reader:
    """Reads a folder again and again with the same scoring server, each time from nothing."""

    def __init__(self, folder: Path, limits: Limits) -> None:
        self._folder = folder
        self._limits = limits
        self._numbers = count()
        self._stack = ExitStack()
        self._new_folder()

    def __enter__(self) -> Self:
        self._portal = self._stack.enter_context(start_blocking_portal())
        self._scorer = self._stack.enter_context(self._portal.wrap_async_context_manager(Scorer(limits=self._limits)))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stack.close()

    def read(self, key: RoundKey) -> tuple[dict[str, list[ScoredGroup]], dict[str, dict[str, int]]]:
        """What was taken of each peer and refused for which reason; the next call finds an empty folder."""
        try:
            return self._portal.call(self._read, key)
        finally:
            self._new_folder()

    def memory_mb(self) -> float:
        """Resident memory of the scoring server."""
        (pid,) = self._scorer.pids
        return resident_mb(pid)

    def _new_folder(self) -> None:
        self.layout = Layout(self._folder / str(next(self._numbers)), "exp")

    async def _read(self, key: RoundKey) -> tuple[dict[str, list[ScoredGroup]], dict[str, dict[str, int]]]:
        arrived: list[str] = []

        def on_news(_: RoundKey, peers: Set[str], news: FileNews) -> None:
            if news is FileNews.THERE:
                arrived.extend(peers)

        limits = LimitsTable(completion_characters=2**20)
        settings = Settings(path=str(self.layout.path), experiment="exp", limits=limits)
        assigned = AnyQuestions(settings.seed, Universe.of(SAPO_TASKS, "tiny-2"))
        intake = Intake(make_context(settings, "reader"), assigned, self._scorer, on_news)
        with anyio.fail_after(TIMEOUT_S):
            async with anyio.create_task_group() as tasks:
                await intake.look({key}, {file.stem for file in self.layout.rollouts_of(key).iterdir()}, tasks)
                sources = [(peer, key) for peer in sorted(arrived)]
                sample = await intake.draw(everything(), sources, math.inf, tasks)
        taken: dict[str, list[ScoredGroup]] = {peer: [] for peer in arrived}
        for scored in sorted(sample.groups, key=lambda scored: scored.group.slot):
            taken[scored.group.peer_id].append(scored)
        return taken, {peer: dict(reasons) for peer, reasons in intake.close_round(key.round).refused_by_peer.items()}


def resident_mb(pid: int) -> float:
    """0 for a process that has ended."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except OSError:
        return 0.0
    return pages * resource.getpagesize() / 2**20


def descendants(mark: str) -> set[int]:
    """Processes with this TMPDIR in their environment, other than this one."""
    found = set()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            marked = f"TMPDIR={mark}\0".encode() in (process / "environ").read_bytes()
        except OSError:
            continue
        if marked and int(process.name) != os.getpid():
            found.add(int(process.name))
    return found
