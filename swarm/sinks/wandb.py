"""Weights & Biases: a run for each node, grouped by experiment, in files of its offline mode below `FOLDER/wandb`.

`wandb sync` uploads them. WANDB_MODE=online uploads at once instead; WANDB_PROJECT names another project than `swarm`.
Reports of errors and all else that wandb says of itself, of the machine and of the code are off.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from typing import Any

from swarm.sinks.base import BEFORE_ALL, SinkRun
from swarm.types import RoundKey

os.environ["WANDB_ERROR_REPORTING"] = "false"
import wandb

from swarm.sinks.wandb_file import steps_of

PROJECT = "swarm"


class WandbSink:
    """Hands rows to wandb. Its service holds rows back, and a kill loses them: the next sink reads in its files which
    are there."""

    def __init__(self, of: SinkRun) -> None:
        self._of = of
        self._mode = "online" if os.environ.get("WANDB_MODE") == "online" else "offline"
        self._runs: dict[str, Any] = {}

    def _id(self, node: str) -> str:
        return hashlib.blake2b(f"{self._of.name}/{node}".encode(), digest_size=8).hexdigest()

    def written(self, node: str) -> RoundKey:
        id_ = self._id(node)
        files = (self._of.folder / "wandb").glob(f"*run-*-{id_}/run-{id_}.wandb")
        last = max((step for file in files for step in steps_of(file)), default=None)
        return BEFORE_ALL if last is None else self._of.key(last)

    def row(self, node: str, key: RoundKey, at: float, values: Mapping[str, float]) -> None:
        if node not in self._runs:
            self._runs[node] = self._open(node)
        self._runs[node].log({**values, "round": key.round, "_timestamp": at}, step=self._of.step(key), commit=True)

    def _open(self, node: str) -> Any:
        self._of.folder.mkdir(parents=True, exist_ok=True)
        return wandb.init(
            project=os.environ.get("WANDB_PROJECT") or PROJECT,
            group=self._of.name,
            name=node,
            id=self._id(node),
            dir=str(self._of.folder),
            config=dict(self._of.config),
            reinit="create_new",
            resume="allow" if self._mode == "online" else None,
            settings=wandb.Settings(
                mode=self._mode,
                console="off",
                silent=True,
                disable_code=True,
                disable_git=True,
                disable_job_creation=True,
                save_code=False,
                x_disable_meta=True,
                x_disable_machine_info=True,
                x_disable_stats=True,
                x_save_requirements=False,
            ),
        )

    def flush(self) -> None:
        """Does nothing: the library has no such thing."""

    def close(self) -> None:
        for run in self._runs.values():
            run.finish()
        if self._runs:
            wandb.teardown()  # its service writes the rest of the files behind our back, and has ended after this
        self._runs.clear()
