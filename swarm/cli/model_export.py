"""`swarm model export`: a node's model out of its checkpoint, as a folder for Hugging Face's libraries, with a card."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, NamedTuple

from cyclopts import Parameter

from swarm.cli.flags import CommonFlags, refuse_no_folder_for, settings_to_look
from swarm.cli.say import say
from swarm.errors import ConfigError, ProtocolError, StoreError
from swarm.policy.hub import own_model
from swarm.policy.peft_form import adapter_of, is_adapter
from swarm.records.files import read_exam
from swarm.records.listing import saved_rounds
from swarm.records.rows import one_per_stage, read_rows
from swarm.records.starts import last_start
from swarm.store.copies import copy_opened
from swarm.store.place import open_place
from swarm.store.run import Run
from swarm.systems import require_for
from swarm.views.model_card import CardContents, model_card
from swarm.wire import keys
from swarm.wire.judge_messages import ExamRow

MODEL = "model"
"""Folder of a checkpoint that is one of a model."""
CARD = "README.md"


def export(
    node: str,
    /,
    *,
    experiment_flags: CommonFlags | None = None,
    rounds: int | None = None,
    output: Annotated[Path | None, Parameter(("--output", "-o"))] = None,
    merged: Annotated[bool, Parameter(negative=())] = False,
) -> None:
    """Copy a node's model out of its checkpoint, and write a card (README.md) that says what it was trained on.

    The card has the rewards of the rounds, the exam if there was one, groups by who published and who wrote them, by
    licence and by consent, and the settings. Of a node that trained an adapter it is the adapter alone, in
    PEFT's form, or with --merged the whole model.

    Args:
        node: Whose.
        experiment_flags: which experiment.
        rounds: After how many rounds; without it, the newest checkpoint.
        output: A folder that is not there yet; without one, named as the node, here.
        merged: Add the adapter to its base, which is loaded, and write the whole model in fp32.
    """
    require_for("`swarm model export`")
    settings, target = settings_to_look(experiment_flags), output or Path(node)
    refuse_no_folder_for("--output", output)
    run = open_place(settings.place).open(settings.experiment)
    if target.exists() or target.is_symlink():
        raise ConfigError(f"{target} is there already: name another folder with --output")
    done = rounds_to_take(run, node, rounds)
    written = write_model_folder(
        run, node, done, target, merged=merged, models=settings.model, hub_token=settings.hub_token
    )
    say(f"wrote the {written.what} of {node} after {done} rounds to {target}: {written.files} files, and README.md")


class WrittenFolder(NamedTuple):
    what: str
    """`model` or `adapter`."""
    files: int
    """Besides the card."""


def rounds_to_take(run: Run, node: str, asked: int | None) -> int:
    """Returns the rounds behind the checkpoint that is meant; without a wish, the newest.

    Raises:
        ConfigError: there is none; says which there are.
    """
    saved = saved_rounds(run).get(node, [])
    if not saved or (asked is not None and asked not in saved):
        there = f"after {', '.join(map(str, saved))} rounds" if saved else "none"
        raise ConfigError(f"{run.store.describe()}: expected a checkpoint of {node!r}, its checkpoints: {there}")
    return saved[-1] if asked is None else asked


def write_model_folder(
    run: Run,
    node: str,
    rounds_done: int,
    target: Path,
    *,
    merged: bool = False,
    models: Sequence[str] = (),
    hub_token: str | None = None,
) -> WrittenFolder:
    """Copy the model of a checkpoint to a folder that is not there yet, and write its card.

    Args:
        merged: add an adapter to its base, which is loaded, in fp32.
        models: what the user named, for a base that is no embedded model.

    Raises:
        ConfigError: the checkpoint has no model, or a whole one that is to be merged.
        ModelError: its adapter cannot be read or merged, or its base is none of the user's models.
        StoreError: it is gone by now, or cannot be copied.
    """
    with TemporaryDirectory() as beside:
        copied = Path(beside) / MODEL
        copied.mkdir()
        _copy(run, keys.checkpoint(rounds_done, node), copied)
        adapter = adapter_of(copied) if is_adapter(copied) else None
        if merged and adapter is None:
            raise ConfigError(f"--merged: the checkpoint of {node} holds a whole model already; leave the flag out")
        base = adapter.base_model_name_or_path if adapter else ""
        card = card_of(run, node, rounds_done, base=base, merged=merged)
        files = _merge(copied, own_model(base, models), target, hub_token) if merged else _bring(copied, target)
        (target / CARD).write_text(card, encoding="utf-8")
    return WrittenFolder("model" if merged or not adapter else "adapter", files)


def card_of(run: Run, node: str, rounds_done: int, *, base: str, merged: bool) -> str:
    """Returns the card of a node's model."""
    found = read_rows(run, node)
    made = CardContents(
        node,
        run.experiment,
        rounds_done,
        one_per_stage(found.rows),
        found.odd,
        base,
        merged,
        last_start(run, node),
        _exam(run),
    )
    return model_card(made)


def _exam(run: Run) -> list[ExamRow]:
    try:
        return read_exam(run)
    except ProtocolError:
        return []


def _copy(run: Run, prefix: str, folder: Path) -> None:
    """The files of its model, and no links."""
    try:
        with run.store.open_bundle(prefix) as bundle, suppress(FileNotFoundError):
            copy_opened(bundle / MODEL, folder)
        for below in filter(Path.is_dir, list(folder.iterdir())):
            shutil.rmtree(below)
    except FileNotFoundError:
        raise StoreError(f"{run.store.describe(prefix)} is gone: the node has newer ones; try once more") from None
    except OSError as error:
        raise StoreError(f"cannot copy the model to {folder}: {error.strerror or error}") from None
    if not any(folder.iterdir()):
        raise ConfigError(f"{run.store.describe(prefix)} holds no model: its node has none of its own")


def _bring(copied: Path, target: Path) -> int:
    """Copy the files to where the user wants them; how many."""
    try:
        shutil.copytree(copied, target)
        return len(list(target.iterdir()))
    except OSError as error:
        raise StoreError(f"cannot write the model to {target}: {error}") from None


def _merge(adapter: Path, base: str, target: Path, hub_token: str | None) -> int:
    """Write the whole model; how many files. Raises as write_merged."""
    from swarm.policy.snapshot import write_merged  # torch, for this flag alone

    target.mkdir(parents=True)
    return write_merged(adapter, target, base, hub_token)
