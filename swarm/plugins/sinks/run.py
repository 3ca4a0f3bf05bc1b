"""`swarm sink run`: the rows of a run to a tracker of experiments, as they come, or once.

the place ─▶ Feed ─▶ Sink
a failure ─▶ a line, a pause that doubles, and the sink is opened anew: it says itself what it has
"""

from __future__ import annotations

import shlex
import time
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from swarm.cli.flags import CommonFlags, open_experiment, open_experiment_when_there, settings_to_look
from swarm.cli.processes import EndRequest, following, look_every
from swarm.cli.run_flags import setting_parameter
from swarm.cli.say import say, warn
from swarm.config import Settings
from swarm.errors import ConfigError, SinkError, StoreError, SwarmError
from swarm.plugins.sinks.base import Sink, sink_run
from swarm.plugins.sinks.feed import MOST_NODES, Feed
from swarm.plugins.sinks.opening import open_sink, refuse_kinds
from swarm.plugins.sinks.settings import SinksSettings
from swarm.records.files import read_experiment
from swarm.records.finished import Finished
from swarm.records.reader import RunReader
from swarm.store.run import Run

ROLE = "sink"
FIRST_PAUSE, LONGEST_PAUSE = 2.0, 120.0
"""Seconds between two tries while a sink, or the place, fails."""
GRACE = 10.0
"""Seconds for which rows may still come once a run is finished."""

FolderFlag = Annotated[str | None, setting_parameter("sink_folder")]


def run(
    kind: Annotated[str, Parameter(help="tensorboard, trackio or wandb, each an extra of its own, or a plugin's.")],
    /,
    *,
    experiment_flags: CommonFlags | None = None,
    folder: FolderFlag = None,
    once: Annotated[bool, Parameter(help="Hand over what there is, and end, though the run may go on.")] = False,
) -> int:
    """Hand the rows of a run to a tracker of experiments as they come, until the run is over.

    What was handed over before is not again; what fails is tried again. Ctrl-C ends it after what is there by then.

    Args:
        experiment_flags: which experiment.
    """
    settings = settings_to_look(experiment_flags)
    refuse_kinds([kind], "KIND")
    run_ = open_experiment(settings) if once else open_experiment_when_there(settings)
    with following(settings, ROLE) as asked:
        if once:
            asked.set()
        return _Handing(settings, kind, run_, folder).follow(asked)


class _Handing:
    """One run, one kind of sink, opened as often as need be."""

    def __init__(self, settings: Settings, kind: str, run: Run, folder: str | None) -> None:
        self._settings = settings
        self._kind = kind
        self._run = run
        self._folder = Path(folder or settings.of(SinksSettings).sink_folder).expanduser().absolute()
        if Path(settings.place) in (self._folder, *self._folder.parents):
            raise ConfigError(f"--folder {self._folder} is in the shared place, which is for nodes: name another one")
        self._reader = RunReader(run)
        self._finished: Finished | None = None
        self._since = 0.0
        """When it was first seen to be finished so."""
        self._sink: Sink | None = None
        self._feed: Feed | None = None
        self._rows = 0

    def all_there_is(self) -> None:
        """Hand over what there is by now.

        Raises:
            SinkError: the sink fails.
            StoreError: the place cannot be read.
        """
        try:
            while self._opened().pump():
                pass
        except SwarmError:
            raise
        except Exception as error:
            raise SinkError(f"{self._kind} takes no rows: {type(error).__name__}: {str(error)[:300]}") from error

    def _opened(self) -> Feed:
        if self._feed is None:
            self._sink = open_sink(self._kind, sink_run(self._run, self._folder))
            self._feed = Feed(self._run, self._sink)
        return self._feed

    def close(self) -> None:
        """Forget the sink; the next look opens another one. Raises SinkError: it may not have kept everything."""
        sink, feed, self._sink, self._feed = self._sink, self._feed, None, None
        self._rows += feed.rows if feed else 0
        if feed and feed.left_out:
            warn(f"rows of {MOST_NODES} nodes are handed over, and of {len(feed.left_out)} more are not")
        try:
            if sink:
                sink.close()
        except Exception as error:
            raise SinkError(f"{self._kind} does not end: {type(error).__name__}: {str(error)[:300]}") from error

    def tell(self) -> None:
        """Says how many rows were handed over."""
        say(f"{self._kind} has {self._rows} more rows of {self._run.experiment}")

    def follow(self, asked: EndRequest) -> int:
        """Hands rows over until the run is over, or somebody ends this; returns the exit code."""
        pause = FIRST_PAUSE
        while True:
            last = asked.is_set()
            try:
                over = self._over(time.monotonic())
                if over or last or self._begun():
                    self.all_there_is()
                if over or last:
                    self.close()
                    self.tell()
                    return 0
                pause = FIRST_PAUSE
                asked.wait(look_every(self._settings))
            except (SinkError, StoreError) as error:
                self._drop()
                if last:
                    return self._give_up(error)
                warn(f"{error}; the run goes on, and this is tried again in {pause:.0f} s [{error.code}]")
                asked.wait(pause)
                pause = min(2 * pause, LONGEST_PAUSE)

    def _over(self, now: float) -> bool:
        """Tells whether the run has been finished for GRACE: no more rows will come. Raises StoreError."""
        finished = self._reader.refresh().finished
        if finished != self._finished:
            self._finished, self._since = finished, now
        return finished is not None and now >= self._since + GRACE

    def _begun(self) -> bool:
        """Tells whether somebody has said what the run is: before that it has no name of its own."""
        return self._sink is not None or read_experiment(self._run) is not None

    def _drop(self) -> None:
        try:
            self.close()
        except SinkError:
            return

    def _give_up(self, error: SwarmError) -> int:
        settings = self._settings
        where = ["--path", settings.place, "--experiment", settings.experiment, "--folder", str(self._folder)]
        again = shlex.join(["swarm", "sink", "run", self._kind, *where])
        warn(f"{error}; once that is mended, what is missing comes by: {again} [{error.code}]")
        return 1
