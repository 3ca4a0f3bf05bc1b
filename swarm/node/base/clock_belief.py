"""Reads the state file, as far as a registered coordinator of this experiment can have written it, and decides whether
a node believes what it says (ClockBelief, pure).

    no further than the own next round ─────────────────────────────────▶ believed: it costs no round
    as far as what was believed before ─────────────────────────────────▶ believed
    the end, where this node has done all rounds that were announced ───▶ believed
    an end with fewer rounds, where it has done them all ───────────────▶ as below, but half as long is enough
    a jump beyond it, or another end:
        its writer beats, and its registration names that round
            and rewards lie in the rounds just before ──────────────────▶ believed, unless it is the end
            and it stays, while the writer beats on ────────────────────▶ believed
        no coordinator is alive, its writer's registration names that round
            (of an end: with its goodbye), and rewards lie in the rounds just before,
            or this node has done them all; and it stays ───────────────▶ believed
        else ───────────────────────────────────────────────────────────▶ not believed
    a round beyond its own last one, without being the end ─────────────▶ not believed: no coordinator writes it
    an end before its own last round ───────────────────────────────────▶ not believed, likewise

One write of a file is a moment's work, and what follows from a jump is for good: rounds are left out, or the node ends.
A coordinator that lives writes over what it has not written, so that what stays is its own word. The clock stops three
rounds after the last reward, so that there is one near every round that it can have come to.

After how many rounds the experiment ends is first taken from whatever is believed, how long a round stays open from a
coordinator that beats; other terms are believed of one that beats alone, and after they have stayed as long as a jump
has to.

What was believed and is contradicted for as long, by a coordinator that beats, is believed no more.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

from swarm.errors import ProtocolError
from swarm.records.files import read_peer, read_state
from swarm.records.finished import can_be_written
from swarm.records.liveness import STOPPED
from swarm.store.run import Run
from swarm.types import RoundKey
from swarm.wire import keys
from swarm.wire.messages import PeerFile, StateFile


@dataclass(frozen=True)
class Sighting:
    """One look at the state file."""

    state: StateFile
    writer: PeerFile
    """The registration of the coordinator that it names, as it was at that moment."""
    now: float
    """Seconds."""
    alive: bool
    """The writer's heart beats."""
    nobody: bool
    """No coordinator's does."""

    @property
    def key(self) -> RoundKey:
        return RoundKey(self.state.round, self.state.stage)

    @property
    def vouched(self) -> bool:
        """The writer is alive, and says of itself that it keeps this round, or a later one."""
        return self.alive and self.writer.status != STOPPED and self.writer.round >= self.state.round

    @property
    def left_behind(self) -> bool:
        """Tells whether everybody has left: no coordinator is alive, and the writer's last words name this round; those
        of an end are its goodbye."""
        said = self.writer.round >= self.state.round
        if self.state.finished:
            said = self.writer.round == self.state.round and self.writer.status == STOPPED
        return self.nobody and said


class _Said(NamedTuple):
    """Holds a statement about the clock that a state file has made again and again."""

    key: RoundKey
    finished: bool
    since: float
    beat: tuple[str, int]
    """Beat of the writer when it began."""


class _Terms(NamedTuple):
    """Holds what a state file says besides where the clock is; nothing in the folder could bear it out."""

    max_rounds: int
    interval: float


class ClockBelief:
    """Decides for one node which statements of state files it believes."""

    def __init__(self, settle: float) -> None:
        """`settle`: seconds for which a jump has to stay."""
        self._settle = settle
        self._known = RoundKey(-1)
        self._terms = _Terms(0, 0.0)
        self._offered: tuple[_Terms, float] | None = None
        """Other terms that are said now, and since when."""
        self._said: _Said | None = None
        self._writer: PeerFile | None = None
        """The registration that was seen last."""

    @property
    def announced(self) -> int:
        """Returns after how many rounds the experiment ends; 0: not said by anybody who is believed."""
        return self._terms.max_rounds

    @property
    def interval(self) -> float:
        """Returns the longest that a round stays open, seconds; 0.0: not said by anybody who is believed."""
        return self._terms.interval

    def needs_traces(self, seen: Sighting, done: int) -> bool:
        """Tells whether it matters that rewards lie in the rounds before: else there is no need to look for them."""
        return not self._costs_nothing(seen, done)

    def believes(self, seen: Sighting, done: int, *, traces: bool) -> bool:
        """Take note of a look, and judge it. A clock that is held, until workers are there, is none to follow.

        Args:
            done: the first round that this node has not done.
            traces: a reward that counts lies in one of the rounds just before.
        """
        seen = self._with_last_words(seen)
        if seen.state.held:  # it moves nobody, but whatever else was said does not stay
            self._said = None if seen.vouched else self._said
            return False
        if not can_be_written(seen.state):
            return False
        if seen.key < self._known:
            back = self._stays(seen, supported=seen.vouched and seen.writer.round == seen.state.round)
            if back:
                self._known, self._said = seen.key, None
            return back
        certain = self._costs_nothing(seen, done)
        at_once = seen.vouched and traces and not seen.state.finished
        borne_out = seen.left_behind and (traces or done >= seen.state.round)
        ends_here = seen.state.finished and seen.state.round <= done
        settle = self._settle / 2 if ends_here else self._settle
        if certain or at_once or self._stays(seen, supported=seen.vouched or borne_out, settle=settle):
            self._believe(seen)
            return True
        return False

    def _with_last_words(self, seen: Sighting) -> Sighting:
        """Returns the look with the newest registration of its writer: an older one of a writer that beats no more is a
        stale read."""
        last, writer = self._writer or seen.writer, seen.writer
        same = (last.peer_id, last.incarnation) == (writer.peer_id, writer.incarnation)
        self._writer = last if same and seen.nobody and writer.beat < last.beat else writer
        return replace(seen, writer=self._writer)

    def _costs_nothing(self, seen: Sighting, done: int) -> bool:
        if seen.state.finished:
            return 0 < self.announced <= seen.state.round <= done
        return seen.key.round <= done or seen.key <= self._known

    def _stays(self, seen: Sighting, *, supported: bool, settle: float | None = None) -> bool:
        beat = (seen.writer.incarnation, seen.writer.beat)
        said = self._said
        if not supported:
            self._said = None
            return False
        if said is None or seen.key < said.key or seen.state.finished != said.finished:
            self._said = said = _Said(seen.key, seen.state.finished, seen.now, beat)
        beaten = beat[0] == said.beat[0] and beat[1] > said.beat[1]
        return seen.now - said.since >= (self._settle if settle is None else settle) and (beaten or seen.nobody)

    def _believe(self, seen: Sighting) -> None:
        self._known, self._said = seen.key, self._said if seen.state.finished else None
        if not self._terms.max_rounds:  # what nobody stands for may still be how many rounds there were to be
            self._terms = _Terms(seen.state.max_rounds, seen.state.round_interval if seen.vouched else 0.0)
        elif seen.vouched and not seen.state.finished:
            self._hear_terms(seen)

    def _hear_terms(self, seen: Sighting) -> None:
        """Others than before, if they stay."""
        said = _Terms(seen.state.max_rounds, seen.state.round_interval)
        if said == self._terms:
            self._offered = None
        elif self._offered is None or self._offered[0] != said:
            self._offered = said, seen.now
        elif seen.now - self._offered[1] >= self._settle:
            self._terms, self._offered = said, None


def believed_state(run: Run, most_rounds: int | None = None) -> tuple[StateFile | None, str]:
    """Returns the state that `written_state` finds, without its writer's registration, and what is wrong with it."""
    written, problem = written_state(run, most_rounds)
    return (written[0] if written else None), problem


def written_state(
    run: Run,
    most_rounds: int | None = None,
    known: tuple[StateFile, PeerFile] | None = None,
    read_writer: Callable[[str], PeerFile | None] | None = None,
) -> tuple[tuple[StateFile, PeerFile] | None, str]:
    """Reads the state file, and the registration of the coordinator that can have written it. Blocking.

    Args:
        most_rounds: where the clock can be at most; None: where the file itself says that the experiment ends.
        known: what this gave a moment ago: while the file stays as it is, the registration is not read again.
        read_writer: reads a node's registration; None: `read_peer` does.

    Returns:
        Both, or None and what is wrong with the file; None and nothing while there is no file.

    Raises:
        StoreError: nobody can tell.
    """
    try:
        state = read_state(run)
    except ProtocolError as error:
        return None, str(error)
    if state is None:
        return None, ""
    if known and state == known[0]:
        return known, ""
    read_writer = read_writer or partial(read_peer, run)
    writer = read_writer(state.updated_by) if keys.is_node_id(state.updated_by) else None
    if writer is None or writer.node_role != "coordinator":
        doubt = f"expected to be written by a registered coordinator, got updated_by = {state.updated_by[:80]!r}"
    elif not (doubt := _beyond_the_end(state, most_rounds)):
        return (state, writer), ""
    return None, f"{run.store.describe(keys.STATE)}: {doubt}"


def _beyond_the_end(state: StateFile, most_rounds: int | None) -> str:
    most = most_rounds if most_rounds is not None else state.max_rounds or state.round  # 0: its writer did not say
    return f"expected round at most {most}, got {state.round}" if state.round > most else ""
