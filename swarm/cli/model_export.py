"""`swarm model export`: a node's model as an ordinary Hugging Face folder, with a card of what it was trained on."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from swarm.cli.flags import CommonFlags, settings_from
from swarm.cli.say import say
from swarm.errors import ConfigError, StoreError
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
) -> None:
    """Copy a node's model out of its checkpoint, and write a card (README.md) that says what it was trained on.

    The card counts groups by who published and who wrote them, by licence and by consent.

    Args:
        node: Whose.
        common: which experiment.
        rounds: After how many rounds; without it, the newest checkpoint.
        output: A folder that is not there yet; without one, named as the node, here.
    """
    settings, target = settings_from(common), output or Path(node)
    run = open_place(settings.place).open(settings.experiment)
    if target.exists() or target.is_symlink():
        raise ConfigError(f"{target} is there already: name another folder with --output")
    done = _rounds_done(run, node, rounds)
    found = read_rows(run, node)
    card = model_card(node, run.experiment, done, one_per_stage(found.rows), found.odd)
    files = _copy(run, keys.checkpoint(done, node), target)
    (target / "README.md").write_text(card, encoding="utf-8")
    say(f"wrote the model of {node} after {done} rounds to {target}: {files} files, and README.md")


def _rounds_done(run: Run, node: str, asked: int | None) -> int:
    saved = saved_rounds(run).get(node, [])
    if not saved or (asked is not None and asked not in saved):
        there = f"after {', '.join(map(str, saved))} rounds" if saved else "none"
        raise ConfigError(f"{run.store.describe()}: expected a checkpoint of {node!r}, its checkpoints: {there}")
    return saved[-1] if asked is None else asked


def _copy(run: Run, prefix: str, target: Path) -> int:
    """The files of its model, and no links."""
    try:
        with run.store.open_bundle(prefix) as bundle:
            files = [file for file in sorted((bundle / MODEL).glob("*")) if file.is_file() and not file.is_symlink()]
            if not files:
                raise ConfigError(f"{run.store.describe(prefix)} holds no model: its node has none of its own")
            target.mkdir(parents=True)
            for file in files:
                shutil.copyfile(file, target / file.name)
            return len(files)
    except FileNotFoundError:
        raise ConfigError(f"{run.store.describe(prefix)} is gone: the node goes on; export once more") from None
    except OSError as error:
        raise StoreError(f"cannot write the model to {target}: {error.strerror or error}") from None
