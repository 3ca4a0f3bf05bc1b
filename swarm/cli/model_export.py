"""`swarm model export`: a node's model as an ordinary Hugging Face folder, or its adapter as PEFT's; with a card."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from swarm.cli.flags import CommonFlags, settings_from
from swarm.cli.model_folder import rounds_to_take, write_model_folder
from swarm.cli.say import say
from swarm.errors import ConfigError
from swarm.store.place import open_place


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
    licence and by consent, the settings and the command. Of a node that trained an adapter it is the adapter alone, in
    PEFT's form, or with --merged the whole model.

    Args:
        node: Whose.
        experiment_flags: which experiment.
        rounds: After how many rounds; without it, the newest checkpoint.
        output: A folder that is not there yet; without one, named as the node, here.
        merged: Add the adapter to its base, which is loaded, and write the whole model in fp32.
    """
    settings, target = settings_from(experiment_flags), output or Path(node)
    run = open_place(settings.place).open(settings.experiment)
    if target.exists() or target.is_symlink():
        raise ConfigError(f"{target} is there already: name another folder with --output")
    done = rounds_to_take(run, node, rounds)
    written = write_model_folder(
        run, node, done, target, merged=merged, models=settings.model, hub_token=settings.hub_token
    )
    say(f"wrote the {written.what} of {node} after {done} rounds to {target}: {written.files} files, and README.md")
