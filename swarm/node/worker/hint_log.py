"""Says in a node's own log, once each, what nothing fails of and is worth knowing.

HintLog      every few rounds: what makes the node useless (swarm.records.hints)
Foreseeing   in its first round: how long one takes, and whether the clock allows it (swarm.records.round_forecast)
             after it: how long the others take and what it earned (swarm.records.first_round)
"""

from __future__ import annotations

from collections import deque
from contextlib import suppress

import msgspec

from swarm.algo.advantages import is_informative
from swarm.errors import SwarmError
from swarm.logs import get_logger
from swarm.node.worker.context import WorkerContext
from swarm.node.worker.steps import OwnHalf
from swarm.records.files import constant_j, read_clock, read_experiment
from swarm.records.first_round import FirstRound, advice, first_round
from swarm.records.hints import FEW, KEPT, HintFacts, Recent, hints_of, recent
from swarm.records.pace import age
from swarm.records.reader import snapshot
from swarm.records.round_forecast import RoundForecast
from swarm.wire.metrics import MetricsRow

OF_PEERS = "nothing-heard"
"""Code of the hint that only the rows of peers explain."""
logger = get_logger(__name__)


class HintLog:
    """Logs each hint about one node once."""

    def __init__(self, ctx: WorkerContext) -> None:
        self._ctx = ctx
        self._rows: deque[Recent] = deque(maxlen=KEPT)
        self._said: set[str] = set()
        self._facts: HintFacts | None = None

    async def after_row(self, row: MetricsRow, _: int) -> None:
        """Takes note of a round, and looks every few of them."""
        self._rows.append(recent(row))
        if len(self._rows) < FEW or row.round % FEW:
            return
        self._facts = self._facts or HintFacts(
            generations=self._ctx.settings.generations,
            trains=self._ctx.settings.trains,
            external_groups=await self._ctx.blocking.run(self._external_groups),
            round_interval=self._ctx.settings.round_interval if self._ctx.settings.clock == "coordinator" else 0.0,
        )
        node = self._ctx.node_id
        new = [hint for hint in hints_of(node, self._rows, self._facts) if hint.code not in self._said]
        if any(hint.code == OF_PEERS for hint in new):  # why is in the rows of others, which are read for this alone
            new = [*hints_of(node, self._rows, await self._ctx.blocking.run(self._with_slow_peers, self._facts))]
        for hint in new:
            if hint.code not in self._said:
                self._said.add(hint.code)
                logger.warning("hint", code=hint.code, evidence=hint.evidence, remedy=hint.remedy, page=hint.page)

    def _with_slow_peers(self, facts: HintFacts) -> HintFacts:
        """Returns the facts with the peers for which a round of the clock is too short. Blocking."""
        try:
            now = snapshot(self._ctx.run)
            slow = {peer: seconds for peer, seconds in now.slow.items() if peer != self._ctx.node_id}
        except SwarmError:
            return facts
        return facts._replace(slow=slow, round_interval=now.state.round_interval if now.state else 0.0)

    def _external_groups(self) -> int:
        """J of the experiment, 0 where it is not fixed, or nobody says. Blocking."""
        try:
            return constant_j(read_experiment(self._ctx.run)) or 0
        except SwarmError:
            return 0


class Foreseeing:
    """Logs one node's prospects once, in and after its first round with groups of its own."""

    def __init__(self, ctx: WorkerContext) -> None:
        self._ctx, self._settings = ctx, ctx.settings
        self._forecast = False
        self._done = False

    async def after_own_half(self, half: OwnHalf) -> None:
        """Says how long a round takes, as soon as the own answers and their part of the update have shown it."""
        if self._forecast or not half.is_new or not half.own or not half.own.groups:
            return
        self._forecast = True
        found = forecast(half, await self._ctx.blocking.run(self._interval))
        say = logger.info if found.fits else logger.warning
        earned = found.earned_line(self._settings.model)
        say("round.forecast", forecast=found.line, rewards=earned, **msgspec.structs.asdict(found))

    def _interval(self) -> float:
        """Returns the longest that the clock lets a round last, seconds; 0.0: this node keeps its own. Blocking."""
        if self._settings.clock == "own":
            return 0.0
        with suppress(SwarmError):
            if state := read_clock(self._ctx.run).state:
                return state.round_interval
        return self._settings.round_interval

    async def after_row(self, row: MetricsRow, _: int) -> None:
        """Takes note of a stage of a round."""
        settings, left = self._settings, self._settings.max_rounds - row.round - 1
        if self._done or row.stage != settings.max_stages - 1 or left < 1:
            return
        if found := first_round([row], left, settings.generations):
            self._done = True
            _log(found, advice(found, settings.model) if row.round == 0 else "")


def forecast(half: OwnHalf, interval: float) -> RoundForecast:
    """Returns what a round takes by its own half: an external group is learned from as long as an own one."""
    assert half.own
    rewards = [reward for scored in half.own.groups for reward in scored.rewards]
    informative = sum(is_informative(scored.rewards) for scored in half.own.groups)
    train = half.seconds.get("train", 0.0)
    return RoundForecast(
        answering=half.seconds.get("generate", 0.0) + half.seconds.get("score", 0.0),
        learning=train * (1 + half.split.external / informative) if informative else None,
        interval=interval,
        answers=len(rewards),
        earned=sum(reward > 0 for reward in rewards),
    )


def _log(found: FirstRound, what_to_do: str) -> None:
    logger.info(
        "rounds.foreseen",
        rounds_left=found.rounds_left,
        take=age(found.seconds_left),
        seconds_per_round=round(found.seconds, 2),
        reward=round(found.reward.mean, 4),
        reward_low=round(found.reward.low, 4),
        reward_high=round(found.reward.high, 4),
        tagged=round(found.tagged.mean, 3),
        finished=round(found.finished.mean, 3),
        signal=f"{found.with_signal}/{found.groups}",
        **({"advice": what_to_do} if what_to_do else {}),
    )
