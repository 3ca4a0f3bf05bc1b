"""A feature that is on joins in a round by hooks; of one that is off nothing is called, and no plugin is imported.

    before it starts    PluginHooks       may refuse to run, changes the registration that peers see
    before publishing   PublishingHook    changes the file that peers see, and takes the change back on reading
    after the own half  OwnHalfHook       is awaited once the gradients of the own groups are added up
    after drawing       DrawingHook       sees the external groups, and may give others in their place
    after the update    UpdateHook        is awaited before the round is submitted; may change the weights
    columns of the row  ColumnsHook       fills its own columns, after all others
    after the row       RowHook           is awaited when the reward is submitted: nobody waits for the round any longer
    a round once more   AgainHook         joins in where a round is redone after a kill

features.py says which of the core's own features are on. A plugin that is on joins in by an entry point of its name in
`swarm.hooks`: a function that takes the node's context and returns a sequence of PluginHooks.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence, Set
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, fields
from typing import NamedTuple

from swarm.node.worker.context import PublishingHook, WorkerContext
from swarm.node.worker.steps import External, OpenedRound, OwnHalf, PlayedRound, Seconds
from swarm.types import Generator, Trainer
from swarm.wire.messages import PeerFile
from swarm.wire.metrics import MetricsRow


class Peers(NamedTuple):
    """Tells, as often as it is asked, what a node knows of the others."""

    known: Callable[[], Set[str]]
    """Registered workers, dead or alive."""
    live: Callable[[], frozenset[str]]
    stopping: Callable[[], bool]
    """This node is to end."""


OwnHalfHook = Callable[[OwnHalf], Awaitable[None]]
DrawingHook = Callable[[OpenedRound, External], External]
UpdateHook = Callable[[OpenedRound, Seconds, Peers], Awaitable[None]]
ColumnsHook = Callable[[MetricsRow, PlayedRound], None]
RowHook = Callable[[MetricsRow, int], Awaitable[None]]
"""The row of a stage, and how many updates are behind the weights."""

AfterAgain = Callable[[int], Awaitable[None]]
"""Awaited after an update that is made once more, with how many are then behind the weights."""
AgainHook = Callable[[MetricsRow], AbstractAsyncContextManager[AfterAgain]]
"""Entered with a row before anything of its round is redone. Raises ProtocolError (`gone`): that cannot be done."""


async def nothing(_: int) -> None:
    """Do nothing after a round that is redone."""


@dataclass(frozen=True)
class Hooks:
    """Holds what joins in, each in the order given."""

    after_drawing: tuple[DrawingHook, ...] = ()
    after_update: tuple[UpdateHook, ...] = ()
    columns: tuple[ColumnsHook, ...] = ()
    after_row: tuple[RowHook, ...] = ()
    again: tuple[AgainHook, ...] = ()
    redone: tuple[str, ...] = ()
    """Columns of what an `again` does once more: a row that has one of REDONE_BY_PLUGINS is redone with its hook alone.
    """
    after_own_half: tuple[OwnHalfHook, ...] = ()


def together(parts: Sequence[Hooks]) -> Hooks:
    """Returns the hooks of all parts, in their order."""
    return Hooks(**{f.name: tuple(hook for one in parts for hook in getattr(one, f.name)) for f in fields(Hooks)})


def all_plugins(parts: Sequence[PluginHooks]) -> PluginHooks:
    """Returns the hooks of all plugins as those of one, in their order."""
    return PluginHooks(
        before_start=tuple(hook for one in parts for hook in one.before_start),
        registration=tuple(hook for one in parts for hook in one.registration),
        before_publishing=tuple(hook for one in parts for hook in one.before_publishing),
        rounds=lambda ctx, generator, trainer: together([one.rounds(ctx, generator, trainer) for one in parts]),
    )


RoundHooks = Callable[[WorkerContext, Generator, Trainer], Hooks]


def no_hooks(_ctx: WorkerContext, _generator: Generator, _trainer: Trainer) -> Hooks:
    """Returns none."""
    return Hooks()


@dataclass(frozen=True)
class PluginHooks:
    """Holds what one feature of a plugin adds to one worker."""

    before_start: tuple[Callable[[], Awaitable[None]], ...] = ()
    """Awaited before the node registers. Raises ConfigError: it must not run so."""
    registration: tuple[Callable[[PeerFile], PeerFile], ...] = ()
    """Changes what the node registers with."""
    before_publishing: tuple[PublishingHook, ...] = ()
    rounds: RoundHooks = no_hooks
    """Gives its other hooks, once the policy is there."""
