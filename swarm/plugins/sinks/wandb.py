"""Weights & Biases: a run for each node, grouped by experiment, in files of its offline mode below `FOLDER/wandb`.

`wandb sync` uploads them. WANDB_MODE=online uploads at once instead; WANDB_PROJECT names another project than `swarm`.
Reports of errors and all else that wandb says of itself, of the machine and of the code are off.

wandb's service holds rows back, and a kill loses them. So rows count as kept once it has ended, which a file beside its
folders says for each node; what it wrote before it was killed is put aside under another name, and handed over anew.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from swarm import forms
from swarm.plugins.sinks.base import BEFORE_ALL, SinkRun
from swarm.types import RoundKey

os.environ["WANDB_ERROR_REPORTING"] = "false"
import wandb

PROJECT = "swarm"
TORN = "torn-"
"""How folders begin that a killed sink left behind."""


class _Closed(msgspec.Struct):
    """Stands in a node's file once wandb has ended."""

    step: int
    """The last that it keeps."""
    folders: list[str]
    """All that it has of the node."""


class WandbSink:
    """A run for each node; made anew it goes on behind the rows that were kept whole."""

    def __init__(self, of: SinkRun) -> None:
        self._of = of
        self._folder = of.folder / "wandb"
        self._mode = "online" if os.environ.get("WANDB_MODE") == "online" else "offline"
        self._runs: dict[str, Any] = {}
        self._last: dict[str, int] = {}
        """Node -> step of its last row."""

    def _id(self, node: str) -> str:
        return hashlib.blake2b(f"{self._of.name}/{node}".encode(), digest_size=8).hexdigest()

    def _file(self, node: str) -> Path:
        return self._folder / f"kept-{self._id(node)}.json"

    def _folders(self, node: str) -> list[Path]:
        return sorted(self._folder.glob(f"*run-*-{self._id(node)}"))

    def written(self, node: str) -> RoundKey:
        try:
            closed = forms.decode(self._file(node).read_bytes(), _Closed)
        except (FileNotFoundError, msgspec.DecodeError):
            closed = _Closed(-1, [])
        for folder in self._folders(node):
            if folder.name not in closed.folders and not folder.name.startswith(TORN):
                folder.rename(folder.with_name(f"{TORN}{folder.name}"))
        return self._of.key(closed.step) if closed.step >= 0 else BEFORE_ALL

    def row(self, node: str, key: RoundKey, at: float, values: Mapping[str, float]) -> None:
        if node not in self._runs:
            self._runs[node] = self._open(node)
        self._last[node] = self._of.step(key)
        self._runs[node].log({**values, "round": key.round, "_timestamp": at}, step=self._last[node], commit=True)

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
        """Its library has no such thing."""

    def close(self) -> None:
        for run in self._runs.values():
            run.finish()
        if self._runs:
            wandb.teardown()  # its service writes the rest of the files behind our back, and has ended after this
        for node in self._runs:
            self._say_closed(node)
        self._runs.clear()

    def _say_closed(self, node: str) -> None:
        folders = [folder.name for folder in self._folders(node) if not folder.name.startswith(TORN)]
        draft = self._file(node).with_suffix(".draft")
        draft.write_bytes(msgspec.json.encode(_Closed(self._last[node], folders)))
        draft.replace(self._file(node))
