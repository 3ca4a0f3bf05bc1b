"""The worker: carries out what WorkerMachine decides.

                 ┌────────────── one event loop ────────────────────────┐        ┌─ Compute: one step at a time ──┐
    store ───▶ wake-ups ─▶ look: state, listings ─▶ Intake              │        │                                │
                 │             │ ClockSeen            │ PeersNews        │        │                                │
    peers/ ──▶ heartbeats ─────┴──▶ mailbox ◀─────────┘                 │        │                                │
                 │                    │                                 │        │                                │
                 │              WorkerMachine ─▶ Generate ─▶ play_round │        │                                │
                 │                    ▲          Step, Draw,      │ ▲ ──┼───────▶│ generator.generate             │
                 │                    │          Train ───────────┼─┘   │        │ trainer.finish_update          │
                 │                    └────── StepDone, Drawn ────┘     │        │                                │
                 │                               GenerateAhead, ────────┼───────▶│ generator.generate             │
                 │                               BeginUpdate ───────────┼───────▶│ trainer.begin_update           │
                 │                               Save ──────────────────┼───────▶│ trainer.snapshot               │
                 └──────────────────────────────────────────────────────┘        └────────────────────────────────┘

A round is one task, told in swarm/node/round.py; it hears what the machine decides between two of its steps. So the
loop is free for peers' files while the compute thread works. What comes before the first round: starting.py; what is
seen: lookout.py; when it is saved: saving.py; what waits while the store refuses: write_queue.py.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Set
from datetime import UTC, datetime
from functools import partial

import anyio
from anyio.abc import TaskGroup

from swarm.config import command_line, variable
from swarm.errors import MissedError
from swarm.logs import get_logger
from swarm.node.base.attendance import in_words
from swarm.node.base.cleaning import Cleaning
from swarm.node.base.context import Compute, NodeContext
from swarm.node.base.experiment import record_start
from swarm.node.base.presence import Presence
from swarm.node.base.write_queue import PATIENCE_AT_STOP, PATIENCE_FOR_THE_REST, WriteQueue
from swarm.node.round import PlayingNode, Rounds
from swarm.node.sharing.admission import questions_of
from swarm.node.sharing.contexts import Contexts
from swarm.node.sharing.examination import FileNews
from swarm.node.sharing.intake import Intake
from swarm.node.sharing.verification import TaskSource
from swarm.node.worker import events as m
from swarm.node.worker.context import WorkerContext
from swarm.node.worker.features import hooks_of, plugin_hooks_of
from swarm.node.worker.hooks import Peers
from swarm.node.worker.lookout import Lookout
from swarm.node.worker.saving import LastState, Saver
from swarm.node.worker.starting import Prepare, compare_experiment, start
from swarm.node.worker.worker_machine import WorkerMachine
from swarm.records.liveness import ACTIVE
from swarm.tasks.universe import Universe, own_mixture
from swarm.types import Policy, RoundKey

logger = get_logger(__name__)


class Worker:
    """One training node, from registration to its last checkpoint."""

    def __init__(
        self,
        ctx: NodeContext,
        *,
        universe: Universe,
        load_policy: Callable[[], Policy],
        task_source: TaskSource,
        compute: Compute,
        prepare: Prepare = anyio.lowlevel.checkpoint,
        others_ready: Callable[[], Awaitable[object]] = anyio.lowlevel.checkpoint,
    ) -> None:
        """Make a worker that has not begun.

        Args:
            universe: what the run may ask.
            prepare: starts what scores answers; called when the node is registered, while it loads its policy.
            others_ready: returns once all nodes that are to begin their first round together have asked as often.
        """
        assigned, mixture = questions_of(ctx.settings, universe), own_mixture(ctx.settings, universe)
        contexts = Contexts(ctx, assigned, task_source) if ctx.settings.max_stages > 1 else None
        source = contexts.source if contexts else task_source
        self._plugins = plugin_hooks_of(ctx)
        self._ctx = WorkerContext(
            **vars(ctx),
            compute=compute,
            assigned=assigned,
            task_source=source,
            writes=WriteQueue(ctx),
            contexts=contexts,
            before_publishing=self._plugins.before_publishing,
            mixture=mixture,
        )
        self._load_policy = load_policy
        self._prepare = prepare
        self._others_ready = others_ready
        self._events, self._mailbox = anyio.create_memory_object_stream[m.Event](math.inf)
        self._to_round, self._round_hears = anyio.create_memory_object_stream[m.Instruction](math.inf)
        """What the machine decides on how far the round in hand has come."""
        self._machine = WorkerMachine(ctx.settings)
        role, model = ctx.settings.registered_role, ctx.settings.model[0]
        changes = self._plugins.registration
        self._presence = Presence(ctx, role, model=model, mixture=mixture and mixture.weights, changes=changes)
        self._cleaning = Cleaning(ctx)
        self._intake = Intake(ctx, assigned, source, self._on_news)
        self._lookout = Lookout(ctx, self._machine, self._intake, self._tell)
        self._peers = Peers(self._lookout.known_peers, self._lookout.live_peers, self._machine.is_stopping)
        self._stop_code: int | None = None
        self._began = self._ctx.clock.monotonic()
        self._rounds: Rounds
        self._saver: Saver

    @property
    def round(self) -> int | None:
        """Returns the round that it works on, or did last."""
        return self._machine.key and self._machine.key.round

    @property
    def left_behind(self) -> bool:
        """Tells whether that round is over for everybody else."""
        return self._machine.left_behind

    # ── life ────────────────────────────────────────────────────────────────────────────────────────────────────────
    async def run(self) -> int:
        """Run until the experiment is finished or somebody stops the node.

        A node that is cancelled ends like one that is killed: it writes nothing more.

        Returns:
            The exit code: 0 finished, that of MissedError if its rounds were over before this life's first, or what
            `stop` was given.

        Raises:
            SwarmError: what ends this node; the store keeps all that was acknowledged.
        """
        with self._events, self._mailbox, self._to_round, self._round_hears:
            for refuse in self._plugins.before_start:
                await refuse()
            async with self._presence.held():
                try:
                    await self._ctx.blocking.run(self._ctx.run.store.recover)
                    await self._live()
                finally:
                    self._ctx.writes.report_loss()
        return self._stop_code or 0

    async def _live(self) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._presence.keep_beating)
            tasks.start_soon(self._ctx.writes.deliver)
            tasks.start_soon(self._lookout.watch_rounds, tasks)
            tasks.start_soon(self._lookout.watch_peers)
            tasks.start_soon(self._start)
            await self._decide(tasks)
            await self._ctx.writes.flush(PATIENCE_AT_STOP)
            await self._ctx.writes.flush_the_rest(PATIENCE_FOR_THE_REST)
            if self._stop_code is None and not self._ctx.writes.keeps_back:
                await self._cleaning.at_the_end(self._presence.beat, self._machine.earned)
            tasks.cancel_scope.cancel()

    def stop(self, exit_code: int) -> None:
        """Finish the step, save, end with this exit code."""
        first = f"finishes its step and saves ({self._ctx.pace})"
        logger.info("node.stopping", exit_code=exit_code, first=first, again="Ctrl-C once more ends it at once")
        self._stop_code = exit_code
        self._tell(m.Stop(self._ctx.clock.monotonic()))

    def _tell(self, event: m.Event) -> None:
        self._events.send_nowait(event)

    def _on_news(self, key: RoundKey, peers: Set[str], news: FileNews) -> None:
        self._lookout.found_something()
        self._tell(m.PeersNews(news, key, frozenset(peers), self._ctx.clock.monotonic()))

    async def _start(self) -> None:
        await compare_experiment(self._ctx)
        last_state = LastState(self._ctx)
        hooks = partial(hooks_of, self._plugins)
        started = await start(self._ctx, self._load_policy, self._prepare, self._intake, last_state, hooks)
        self._rounds = started.rounds
        self._saver = Saver(self._ctx, self._machine, started.policy, started.rounds, last_state)
        self._cleaning.take_up(started.lived, started.saved)
        await record_start(self._ctx, started.rounds_saved)
        await self._others_ready()
        self._presence.model, self._presence.status = started.policy.name, ACTIVE
        await self._presence.beat()
        await self._others_ready()  # to say so
        logger.info(
            "node.ready",
            model=started.policy.name,
            next_round=started.next.round,
            checkpoint_round=started.rounds_saved,
            rounds_redone=started.redone.rounds,
            rounds_lost=started.redone.lost,
            cumulative_reward=started.rounds.cumulative_reward,
        )
        if self._machine.waits_for_newcomers(started.next):
            logger.info("workers.awaited", **in_words(self._ctx.settings))
        unsaved = any(started.redone) or started.rounds_saved not in (0, *started.saved)
        self._tell(m.Ready(started.next, unsaved))

    # ── decide, carry out ───────────────────────────────────────────────────────────────────────────────────────────
    async def _decide(self, tasks: TaskGroup) -> None:
        clock = self._ctx.clock
        while self._machine.phase is not m.Phase.DONE:
            event, wake_at = None, self._machine.wake_at
            with clock.move_on_after(None if wake_at is None else max(0.0, wake_at - clock.monotonic())):
                event = await self._mailbox.receive()
            on_own_clock = self._machine.on_own_clock
            for instruction in self._machine.handle(event or m.Tick(clock.monotonic())):
                self._carry_out(instruction, tasks)
            if self._machine.on_own_clock != on_own_clock:
                self._tell_whose_clock()
            self._presence.phase = self._machine.phase
            self._lookout.turn()

    def _tell_whose_clock(self) -> None:
        if not self._machine.on_own_clock:
            logger.info("clock.followed", rounds_done=self._machine.rounds_done)
            return
        absent = self._lookout.seconds_without_coordinator()
        since = datetime.fromtimestamp(self._ctx.clock.wall() - absent, UTC).isoformat(timespec="seconds")
        logger.warning("clock.own", rounds_done=self._machine.rounds_done, no_coordinator_since=since)

    def _carry_out(self, instruction: m.Instruction, tasks: TaskGroup) -> None:
        match instruction:
            case m.Generate(key):
                self._presence.round, self._presence.stage = key
                self._presence.needs_from = self._cleaning.needed_from(key.round)
                tasks.start_soon(self._play, instruction, self._machine.on_own_clock, tasks)
            case m.Step() | m.Draw() | m.Train():
                self._to_round.send_nowait(instruction)
            case m.GenerateAhead(key):
                tasks.start_soon(self._rounds.prepare, key)
            case m.BeginUpdate(key):
                tasks.start_soon(self._rounds.begin_update, key)
            case m.Save(done):
                tasks.start_soon(self._save, done)
            case m.Finish("missed", missed):
                self._say_missed(missed)
            case m.Finish(reason):
                logger.info(
                    "node.finished", reason=reason, rounds_done=self._machine.rounds_done, **self._way_back(reason)
                )

    def _say_missed(self, missed: int) -> None:
        """Says that this life of the node did nothing, why, and what helps: it is no success."""
        self._stop_code = self._stop_code or MissedError.exit_code
        seconds, done = self._ctx.clock.monotonic() - self._began, self._machine.rounds_done
        rounds = done + missed
        which = f"all {rounds} rounds" if not done else f"the last {missed} of {rounds} rounds"
        logger.error(
            "node.finished",
            reason="missed",
            rounds_done=done,
            rounds_missed=missed,
            why=f"{which} were over when this node was ready, {seconds:.0f} s after its start",
            remedy=f"start its coordinator again with more than {rounds} --rounds, and then this node; "
            "with --expected-workers a coordinator waits for a number of workers, or for those named",
            code=MissedError.code,
            exit_code=self._stop_code,
        )

    def _way_back(self, reason: str) -> dict[str, str]:
        """Returns how to go on, for a node that was stopped; its name may have been made up for it."""
        if reason != "stopped":
            return {}
        own = {variable("node_id"): self._ctx.node_id}
        return {"resume": command_line({**self._ctx.settings.as_environment(), **own}, self._ctx.settings.role)}

    async def _play(self, begins: m.Generate, on_own_clock: bool, tasks: TaskGroup) -> None:
        around = PlayingNode(self._peers, self._decided, partial(self._look, tasks), tasks)
        lived, live = await self._rounds.play_round(begins, around, on_own_clock=on_own_clock)
        self._tell(m.StepDone(m.Phase.SUBMITTING, begins.key))
        if (bill := self._rounds.bill) and bill.closed:
            self.stop(0)
        self._cleaning.done(lived)
        if not self._ctx.writes.keeps_back:  # else it would have been through nothing, should it be killed now
            await self._cleaning.after(lived.round, live, self._machine.earned)

    async def _decided(self, event: m.Event) -> m.Instruction:
        """Returns what the machine decides on how far the round has come; never, where the round is undone."""
        self._tell(event)
        return await self._round_hears.receive()

    async def _look(self, tasks: TaskGroup) -> None:
        await self._lookout.look_at_peers()  # whom to wait for, as of now
        if self._machine.on_own_clock and self._ctx.settings.shares:
            await self._lookout.list_rollouts(tasks)  # of several rounds any will do: all that is there takes part

    async def _save(self, done: RoundKey) -> None:
        came_of_it = await self._saver.save(done)
        if isinstance(came_of_it, m.Saved):
            self._cleaning.saved(done.round)
            self._presence.needs_from = self._cleaning.needed_from(self._presence.round)
        self._tell(came_of_it)
