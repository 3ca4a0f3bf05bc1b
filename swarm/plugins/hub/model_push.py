"""`swarm model push`: a node's model to the Hugging Face Hub, once, or again and again while it is being trained.

    the place: checkpoints, clock ─▶ PushMachine ─▶ folder with its card ─▶ the Hub
    a failure ─▶ a line with the remedy, and another try ─▶ at the end exit 1, and the command that does it by hand

It reads the place as views do: no node knows of it, and none waits for it.
"""

from __future__ import annotations

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
from swarm.plugins.hub.push_machine import Push, PushEnd, PushMachine
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
        return pusher.follow(run, PushMachine(every, look_every=look_every(settings), patience=PATIENCE), asked)


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

    def follow(self, run: Run, machine: PushMachine, asked: EndRequest) -> int:
        """Pushes until there is nothing more to push; returns the exit code."""
        node = _Node(run, self._node)
        while True:
            try:
                newest, over = node.look(time.monotonic())
            except StoreError as error:
                newest, over = node.newest, False
                warn(f"{error}; looking again")
            action = machine.look(newest, over or asked.is_set(), time.monotonic())
            if isinstance(action, PushEnd):
                return self._end(action, newest)
            if isinstance(action, Push):
                self._try(run, machine, action.rounds_done)
            else:
                _wait(action.seconds, asked)

    def _try(self, run: Run, machine: PushMachine, rounds_done: int) -> None:
        try:
            self.push(run, rounds_done)
        except (PushError, ConfigError, StoreError) as error:
            pause = machine.failed(time.monotonic(), lasting=isinstance(error, ConfigError) or _lasts(error))
            warn(f"{error}; the run goes on, and this is tried again in {pause:.0f} s [{error.code}]")
        else:
            machine.pushed(rounds_done)

    def _end(self, action: PushEnd, newest: int) -> int:
        if not newest:
            warn(f"{self._node} has left no checkpoint: there is nothing to push")
        if action.missing:
            settings = self._settings
            words = ["--repo", self._repo, "--path", settings.place, "--experiment", settings.experiment]
            again = shlex.join(["swarm", "model", "push", self._node, *words, *["--merged"][: self._merged]])
            warn(f"the model of {self._node} after {newest} rounds was not pushed; once that is mended: {again}")
        return int(bool(action.missing))


class _Node:
    """Tells who pushes a node's model how far that node is."""

    def __init__(self, run: Run, node: str) -> None:
        self._reader = RunReader(run, frozenset({node}))
        self._node = node
        self.newest = 0
        self._finished_at: float | None = None

    def look(self, now: float) -> tuple[int, bool]:
        """Returns rounds behind the newest whole checkpoint, 0 for none, and whether no newer one will come.

        Raises:
            StoreError: the place cannot be read.
        """
        snapshot = self._reader.refresh()
        if snapshot.finished is None:
            self._finished_at = None
        elif self._finished_at is None:
            self._finished_at = now
        self.newest = max(saved_rounds(self._reader.run).get(self._node, [0]))  # after the clock: the last one counts
        if self._finished_at is None:
            return self.newest, False
        done = self._reader.progress_of(self._node).rounds_done
        return self.newest, self.newest >= done > 0 or now >= self._finished_at + GRACE


def _lasts(error: Exception) -> bool:
    return isinstance(error, PushError) and error.lasting


def _wait(seconds: float, asked: EndRequest) -> None:
    """Waits so many seconds, or until asked to end; one who was asked before just waits."""
    if asked.is_set():
        time.sleep(seconds)
    else:
        asked.wait(seconds)
