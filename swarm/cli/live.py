"""Finds whether an experiment runs already: `swarm up` would only start nodes that have to end at once, since their ids
are taken, and say how to resume what is not to be resumed.

    processes that this user runs here ─▶ known for sure
    registrations of the same ids      ─▶ believed when their heartbeat moves while it is watched
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Mapping, Sequence

from swarm.cli.processes import COPY, UP, ProcessFile, running
from swarm.cli.say import say
from swarm.config import Settings
from swarm.errors import ExperimentError
from swarm.node.process.host import this_process
from swarm.records.files import read_peer, read_peers
from swarm.records.liveness import STOPPED, is_alive, process_runs
from swarm.store.run import Run
from swarm.views.text import shorten
from swarm.wire.messages import PeerFile

BEATS = 3
"""Heartbeat intervals for which a registration is watched, as a node that finds its id taken does."""
POLL_SECONDS = 0.1
LONG_SECONDS = 5.0
"""Who is to wait for longer is told why."""


def refuse_live(settings: Settings, run: Run, names: Sequence[str]) -> None:
    """See that no other `swarm up`, no node of these names, and nobody who copies into it, is running in an experiment.

    Raises:
        ExperimentError: there is one; says what to do.
    """
    with running(settings) as found:
        files = [process.file for process in found]
        taken = [file for file in files if file.role in (UP, COPY) or {*file.nodes} & {*names}]
    if taken:
        raise ExperimentError(_running_here(settings, run, taken))
    if beating := _beating(settings, run, names):
        raise ExperimentError(
            f"{run.store.describe()} is running: {', '.join(beating)} beat in it, of another machine or user. Stop "
            f"them there (`swarm down`), {_other_ways(settings)}"
        )


def _running_here(settings: Settings, run: Run, taken: Sequence[ProcessFile]) -> str:
    return (
        f"{run.store.describe()} is running: {', '.join(file.title for file in taken)}. End it with "
        f"`swarm down {_named(settings)}`, {_other_ways(settings)}"
    )


def _other_ways(settings: Settings) -> str:
    return (
        "choose another --experiment for a new one, or join it with a node of another name: "
        f"`swarm node {_named(settings)} --node-id NAME`"
    )


def _named(settings: Settings) -> str:
    return shlex.join(["--path", settings.place, "--experiment", settings.experiment])


def _beating(settings: Settings, run: Run, names: Sequence[str]) -> list[str]:
    """Returns those nodes that show a later heartbeat while they are watched; at once where none looks alive."""
    here, wall = this_process(), time.time()
    first = {
        name: peer
        for name in names
        if (peer := read_peer(run, name)) and is_alive(peer, wall, settings.cadence.liveness_timeout, here)
    }
    return _first_moved(run, first, settings)


def beating_elsewhere(run: Run, settings: Settings) -> list[str]:
    """Returns nodes of other machines whose heartbeat moves while it is watched, whatever the clock of theirs says.

    An hour between two clocks makes a live node look silent for an hour, and of a dead one nothing moves.
    """
    here = this_process()
    return _first_moved(
        run,
        {peer.peer_id: peer for peer in read_peers(run) if peer.status != STOPPED and process_runs(peer, here) is None},
        settings,
    )


def _first_moved(run: Run, first: Mapping[str, PeerFile], settings: Settings) -> list[str]:
    seconds = BEATS * settings.cadence.heartbeat_interval
    if first and seconds > LONG_SECONDS:
        one = shorten(min(first), 24)
        say(f"watching for {seconds:.0f} s whether {len(first)} nodes of other machines beat, such as {one}")
    deadline = time.monotonic() + seconds
    while first and time.monotonic() < deadline:
        time.sleep(POLL_SECONDS)
        if moved := [name for name, peer in first.items() if _moved(peer, read_peer(run, name))]:
            return moved
    return []


def _moved(before: PeerFile, now: PeerFile | None) -> bool:
    return now is not None and now.incarnation == before.incarnation and now.beat > before.beat
