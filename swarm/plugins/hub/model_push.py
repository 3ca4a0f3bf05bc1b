"""`swarm model push`: a node's model to the Hugging Face Hub, once, or again and again while it is being trained.

    the place: checkpoints, clock ─follow─▶ folder with its card ─▶ the Hub
    a failure ─▶ a line with the remedy, and another try ─▶ at the end exit 1, and the command that does it by hand

It reads the place as views do: no node knows of it, and none waits for it.
"""

from __future__ import annotations

import math
import shlex
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from swarm.cli.flags import CommonFlags, open_experiment, open_experiment_when_there, settings_to_look
from swarm.cli.model_export import rounds_to_take, write_model_folder
from swarm.cli.processes import EndRequest, following, look_every
from swarm.cli.say import say, warn
from swarm.config import Settings
from swarm.errors import ConfigError, PushError, StoreError
from swarm.plugins.hub.hub_push import push_folder, repo_problem
from swarm.plugins.hub.settings import HubSettings
from swarm.records.listing import saved_rounds
from swarm.records.reader import RunReader
from swarm.store.run import Run
from swarm.systems import require_for

ROLE = "push"
PATIENCE = 120.0
"""Seconds for which the last push is tried when the run is over, or somebody ends this; less than `swarm up` waits."""
GRACE = 60.0
"""Seconds that a node of a finished run has to write its last checkpoint."""
FIRST_PAUSE, LONGEST_PAUSE = 10.0, 300.0
"""Seconds between two tries while pushing fails; the longest one where trying again alone will not help."""


def push(
    node: str,
    /,
    *,
    experiment_flags: CommonFlags | None = None,
    repo: str | None = None,
    rounds: int | None = None,
    merged: bool = False,
    public: bool = False,
    follow: bool = False,
    every: Annotated[int | None, Parameter(validator=Number(gte=0))] = None,
) -> int:
    """Push a node's model to the Hugging Face Hub, with a card that says what it was trained on.

    What is pushed is what `swarm model export` writes, as one commit. The token is that of `hf auth login` or HF_TOKEN.
    A repository that is not there is made, for nobody else to see.

    Args:
        node: Whose.
        experiment_flags: which experiment.
        repo: As USER/NAME. [default: SWARM_PUSH_REPO]
        rounds: After how many rounds; without it, the newest checkpoint.
        merged: Add an adapter to its base, and push the whole model in fp32.
        public: A repository that is made is for all to see.
        follow: Stay with the run: push its last model when it is over, and try again while that fails.
        every: With --follow, push every so many rounds, too, from the newest checkpoint. [default: SWARM_PUSH_EVERY]
    """
    require_for("`swarm model push`")
    settings = settings_to_look(experiment_flags)
    own = settings.of(HubSettings)
    target = repo or own.push_repo
    if target is None:
        raise ConfigError("--repo is missing: name a repository of the Hugging Face Hub as USER/NAME")
    if problem := repo_problem(target):
        raise ConfigError(f"--repo: {problem}")
    if follow and rounds is not None:
        raise ConfigError("--rounds names one checkpoint and --follow takes the newest: give one of them")
    pusher = _Pusher(settings, node, target, merged=merged, public=public)
    if not follow:
        run = open_experiment(settings)
        pusher.push(run, rounds_to_take(run, node, rounds))
        return 0
    run = open_experiment_when_there(settings)
    every = own.push_every if every is None else every
    with following(settings, ROLE) as asked:
        return pusher.follow(run, every, asked)


class _Pusher:
    def __init__(self, settings: Settings, node: str, repo: str, *, merged: bool, public: bool) -> None:
        self._settings = settings
        self._node = node
        self._repo = repo
        self._merged = merged
        self._public = public

    def push(self, run: Run, rounds_done: int) -> None:
        """Raises PushError; ConfigError, StoreError as write_model_folder."""
        token, models = self._settings.hub_token, self._settings.model
        with TemporaryDirectory() as beside:
            folder = Path(beside) / "pushed"
            written = write_model_folder(
                run, self._node, rounds_done, folder, merged=self._merged, models=models, hub_token=token
            )
            message = f"{self._node} of {run.experiment} after {rounds_done} rounds"
            where = push_folder(folder, self._repo, message, hub_token=token, public=self._public)
        say(f"pushed the {written.what} of {self._node} after {rounds_done} rounds: {where}")

    def follow(self, run: Run, every: int, asked: EndRequest) -> int:
        """Pushes until there is nothing more to push, or no more time to; returns the exit code.

        Args:
            every: rounds between two pushes; 0: only the last checkpoint.
        """
        node, pushed, failures, try_at, ends_at = _Node(run, self._node), 0, 0, 0.0, math.inf
        while True:
            over, now = node.look(time.monotonic()) or asked.is_set(), time.monotonic()
            if over and ends_at == math.inf:
                ends_at, try_at = now + PATIENCE, now
            due = node.newest > pushed and (over or 0 < every <= node.newest - pushed)
            if over and not due:
                return self._end(node.newest, missing=False)
            if failures and now >= ends_at:
                return self._end(node.newest, missing=True)
            if not due or now < try_at:
                _wait(try_at - now if due else look_every(self._settings), asked)
            elif error := self._failure(run, node.newest):
                now, lasts = time.monotonic(), _lasts(error)
                if over and lasts:
                    ends_at = now
                pause = LONGEST_PAUSE if lasts else min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** min(failures, 10))
                pause = min(pause, max(0.0, ends_at - now))
                failures, try_at = failures + 1, now + pause
                warn(f"{error}; the run goes on, and this is tried again in {pause:.0f} s [{error.code}]")
            else:
                pushed, failures, try_at = node.newest, 0, 0.0

    def _failure(self, run: Run, rounds_done: int) -> PushError | ConfigError | StoreError | None:
        try:
            self.push(run, rounds_done)
        except (PushError, ConfigError, StoreError) as error:
            return error
        return None

    def _end(self, newest: int, *, missing: bool) -> int:
        if not newest:
            warn(f"{self._node} has left no checkpoint: there is nothing to push")
        if missing:
            settings = self._settings
            words = ["--repo", self._repo, "--path", settings.place, "--experiment", settings.experiment]
            again = shlex.join(["swarm", "model", "push", self._node, *words, *["--merged"][: self._merged]])
            warn(f"the model of {self._node} after {newest} rounds was not pushed; once that is mended: {again}")
        return int(missing)


class _Node:
    """Tells who pushes a node's model how far that node is."""

    def __init__(self, run: Run, node: str) -> None:
        self._reader = RunReader(run, frozenset({node}))
        self._node = node
        self.newest = 0
        self._finished_at: float | None = None

    def look(self, now: float) -> bool:
        """Finds the newest whole checkpoint, the rounds behind it, 0 for none; tells whether no newer one will come."""
        try:
            finished = self._reader.refresh().finished
            self.newest = max(saved_rounds(self._reader.run).get(self._node, [0]))  # after the clock: the last counts
        except StoreError as error:
            warn(f"{error}; looking again")
            return False
        if finished is None:
            self._finished_at = None
            return False
        if self._finished_at is None:
            self._finished_at = now
        done = self._reader.progress_of(self._node).rounds_done
        return self.newest >= done > 0 or now >= self._finished_at + GRACE


def _lasts(error: Exception) -> bool:
    return isinstance(error, ConfigError) or (isinstance(error, PushError) and error.lasting)


def _wait(seconds: float, asked: EndRequest) -> None:
    """Waits so many seconds, or until asked to end; one who was asked before just waits."""
    if asked.is_set():
        time.sleep(seconds)
    else:
        asked.wait(seconds)
