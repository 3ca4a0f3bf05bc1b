"""Whatever becomes of the watcher, every file is found within one reconcile interval.

A process looks, with the real watcher on a real folder; this one publishes round after round, each into a folder that
is new. Each test prints the longest time from a file's rename to the end of the listing that has it (see it by -s).
"""

from __future__ import annotations

import os
import re
import signal
import statistics
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from swarm.types import RoundKey
from tests.integration.folder_looker import LATE, NEVER, UNAVAILABLE
from tests.integration.swarms import Daemon, daemons, eventually
from tests.layout import Layout

pytestmark = pytest.mark.engine

INTERVAL = 0.6
"""Seconds between two listings, whatever the watcher says."""
SLACK, FACTOR = 1.0, 10.0
"""What waking, listing and telling may take: a second, and so many times the lateness of a plain sleep beside it."""
ROUNDS = 6
QUEUE = Path("/proc/sys/fs/inotify/max_queued_events")


class Looker(NamedTuple):
    """A process of folder_looker."""

    layout: Layout
    daemon: Daemon

    @property
    def found(self) -> dict[str, float]:
        """When it found what, and by how much a plain sleep in it was late at most; whole lines alone."""
        return {name: float(at) for name, at in re.findall(r"^(\S+) ([\d.e-]+)\n", self.daemon.listen(), re.MULTILINE)}

    def sees(self, name: str) -> bool:
        if self.daemon.process.poll() == UNAVAILABLE:
            pytest.skip(self.daemon.listen().splitlines()[-1])
        assert self.daemon.process.poll() is None, self.daemon.listen()
        return name in self.found


@contextmanager
def looking(tmp_path: Path, trouble: str, interval: float = INTERVAL) -> Iterator[Looker]:
    """One that has seen the first file, which was there before it."""
    layout = Layout(tmp_path / "shared", "demo")
    publish_round(layout, 0)
    arguments = (str(layout.path), "demo", str(interval), trouble)
    with daemons() as start:
        looker = Looker(layout, start("tests.integration.folder_looker", dict(os.environ), *arguments))
        eventually(lambda: looker.sees("0/0/anna"), "the file that was there before")
        yield looker


def publish_round(layout: Layout, round_: int) -> float:
    """The moment from which a listing shows it."""
    layout.put(layout.rollout_file(RoundKey(round_), "anna"), b"{}", durable=False)
    return time.monotonic()


def waits(looker: Looker, rounds: int = ROUNDS) -> list[float]:
    """Seconds until each of these files was found, published at moments spread evenly over the interval."""
    published: dict[str, float] = {}
    for round_ in range(1, rounds + 1):
        published[f"{round_}/0/anna"] = publish_round(looker.layout, round_)
        phase = round_ * 0.618 % 1  # the golden ratio: no two at the same distance from a listing
        eventually(lambda: looker.sees(f"{round_}/0/anna"), f"round {round_}")  # noqa: B023 - called at once
        time.sleep(phase * INTERVAL)
    return [looker.found[name] - at for name, at in published.items()]


def expect_within_one_interval(looker: Looker, found_after: list[float], what: str) -> None:
    longest, middle = max(found_after), statistics.median(found_after)
    sys.stdout.write(f"{what}: longest {longest:.3f} s, median {middle:.3f} s, interval {INTERVAL} s\n")
    assert longest <= INTERVAL + SLACK + FACTOR * looker.found.get(LATE, 0.0)


def test_with_events_files_are_found_whatever_the_interval(tmp_path: Path) -> None:
    with looking(tmp_path, "none", NEVER) as looker:
        assert len(waits(looker)) == ROUNDS
    assert "watch." not in looker.daemon.listen()


@pytest.mark.parametrize(
    ("trouble", "said"),
    [
        ("off", ""),
        ("no_instances", "sysctl user.max_inotify_instances"),
        ("no_watches", "sysctl user.max_inotify_watches"),
    ],
)
def test_without_a_watcher_everything_is_found_within_one_interval(tmp_path: Path, trouble: str, said: str) -> None:
    with looking(tmp_path, trouble) as looker:
        found_after = waits(looker)
        expect_within_one_interval(looker, found_after, trouble)
        assert max(found_after) > INTERVAL / 10  # or it was not the interval that found them
        assert bool(said) == ("watch.failed" in looker.daemon.listen())
        assert said in looker.daemon.listen()


def test_watches_that_run_out_while_it_runs_are_noticed_and_delay_nothing_beyond_the_interval(tmp_path: Path) -> None:
    with looking(tmp_path, "few_watches") as looker:
        expect_within_one_interval(looker, waits(looker), "few_watches")
        assert "watch.failed" in looker.daemon.listen()


def test_more_events_than_the_queue_holds_delay_nothing_beyond_the_interval(tmp_path: Path) -> None:
    holds = int(QUEUE.read_text()) if QUEUE.exists() else 0
    if not 0 < holds <= 50_000:
        pytest.skip(f"the queue of inotify holds {holds} events here: too many to overflow it in a test, or none")
    with looking(tmp_path, "none") as looker:
        looker.daemon.signal(signal.SIGSTOP)  # nobody reads the queue now
        stage = looker.layout.rollouts_of(RoundKey(0))
        for number in range(holds + 1):  # each creation is an event, whatever else is
            os.close(os.open(stage / f"{number}.tmp", os.O_CREAT | os.O_WRONLY))
        unread = [f"{round_}/0/anna" for round_ in range(1, 4) if publish_round(looker.layout, round_)]
        looker.daemon.signal(signal.SIGCONT)
        published = dict.fromkeys(unread, time.monotonic())
        published |= {f"{round_}/0/anna": publish_round(looker.layout, round_) for round_ in range(4, 10)}
        eventually(lambda: looker.sees("9/0/anna"), "what was published during the flood and after it")
        found_after = [looker.found[name] - at for name, at in published.items()]
        expect_within_one_interval(looker, found_after, f"{holds + 1} files that nobody read of")
