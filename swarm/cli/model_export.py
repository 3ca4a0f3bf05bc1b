"""`swarm model export`: a node's model as an ordinary Hugging Face folder, or its adapter as PEFT's; with a card."""

from __future__ import annotations

import shutil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

from cyclopts import Parameter

from swarm.cli.flags import CommonFlags, settings_from
from swarm.cli.say import say
from swarm.errors import ConfigError, StoreError
from swarm.policy.peft_form import adapter_of, is_adapter
from swarm.records.listing import saved_rounds
from swarm.records.rows import one_per_stage, read_rows
from swarm.store.place import open_place
from swarm.store.run import Run
from swarm.views.model_card import model_card
from swarm.wire import keys

MODEL = "model"
"""Folder of a checkpoint that is one of a model."""


def export(
    node: str,
    /,
    *,
    common: CommonFlags | None = None,
    rounds: int | None = None,
    output: Annotated[Path | None, Parameter(("--output", "-o"))] = None,
    merged: Annotated[bool, Parameter(negative=())] = False,
) -> None:
    """Copy a node's model out of its checkpoint, and write a card (README.md) that says what it was trained on.

    The card counts groups by who published and who wrote them, by licence and by consent. Of a node that trained an
    adapter it is the adapter alone, in PEFT's form, or with --merged the whole model.

    Args:
        node: Whose.
        common: which experiment.
        rounds: After how many rounds; without it, the newest checkpoint.
        output: A folder that is not there yet; without one, named as the node, here.
        merged: Add the adapter to its base, which is loaded, and write the whole model in fp32.
    """
    settings, target = settings_from(common), output or Path(node)
    run = open_place(settings.place).open(settings.experiment)
    if target.exists() or target.is_symlink():
        raise ConfigError(f"{target} is there already: name another folder with --output")
    done = _rounds_done(run, node, rounds)
    found = read_rows(run, node)
    with TemporaryDirectory() as beside:
        copied = Path(beside) / MODEL
        _copy(run, keys.checkpoint(done, node), copied)
        adapter = adapter_of(copied) if is_adapter(copied) else None
        if merged and adapter is None:
            raise ConfigError(f"--merged: the checkpoint of {node} holds a whole model already; leave the flag out")
        card = model_card(
            node,
            run.experiment,
            done,
            one_per_stage(found.rows),
            found.odd,
            base=adapter.base_model_name_or_path if adapter else "",
            merged=merged,
        )
        files = _merge(copied, target, settings.hub_token) if merged else _bring(copied, target)
        (target / "README.md").write_text(card, encoding="utf-8")
    what = "model" if merged or not adapter else "adapter"
    say(f"wrote the {what} of {node} after {done} rounds to {target}: {files} files, and README.md")


def _rounds_done(run: Run, node: str, asked: int | None) -> int:
    saved = saved_rounds(run).get(node, [])
    if not saved or (asked is not None and asked not in saved):
        there = f"after {', '.join(map(str, saved))} rounds" if saved else "none"
        raise ConfigError(f"{run.store.describe()}: expected a checkpoint of {node!r}, its checkpoints: {there}")
    return saved[-1] if asked is None else asked


def _copy(run: Run, prefix: str, folder: Path) -> None:
    """The files of its model, and no links."""
    try:
        with run.store.open_bundle(prefix) as bundle:
            files = [file for file in sorted((bundle / MODEL).glob("*")) if file.is_file() and not file.is_symlink()]
            if not files:
                raise ConfigError(f"{run.store.describe(prefix)} holds no model: its node has none of its own")
            folder.mkdir()
            for file in files:
                shutil.copyfile(file, folder / file.name)
    except FileNotFoundError:
        raise ConfigError(f"{run.store.describe(prefix)} is gone: the node goes on; export once more") from None
    except OSError as error:
        raise StoreError(f"cannot copy the model to {folder}: {error.strerror or error}") from None


def _bring(copied: Path, target: Path) -> int:
    """Copy the files to where the user wants them; how many."""
    try:
        shutil.copytree(copied, target)
        return len(list(target.iterdir()))
    except OSError as error:
        raise StoreError(f"cannot write the model to {target}: {error}") from None


def _merge(adapter: Path, target: Path, hub_token: str | None) -> int:
    """Write the whole model; how many files. Raises as write_merged."""
    from swarm.policy.merging import write_merged  # torch, for this flag alone

    target.mkdir(parents=True)
    return write_merged(adapter, target, hub_token)
