"""Models that a shared place names: which of the user's own is meant. Nothing that a stranger names is fetched.

a name in an adapter, a checkpoint or a study's record ─▶ one that the user gave, an embedded one, or one of the hub
                                                         that is on this machine already ─▶ else ModelError
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from swarm.errors import ModelError
from swarm.harmless import quoted
from swarm.policy.embedded import EMBEDDED
from swarm.policy.hub import cached_folder
from swarm.policy.model_files import lies_in_a_place
from swarm.policy.peft_form import SavedAdapter


def own_model(name: str, models: Sequence[str] = ()) -> str:
    """Returns the model that is meant by a name in a shared place; asks nobody.

    Args:
        models: what the user named; another folder or owner of the same last name will do.

    Raises:
        ModelError: it is none of the user's; says what to type.
    """
    if name in models or name in EMBEDDED:
        return name
    named = [model for model in models if model not in EMBEDDED and Path(model).name == Path(name).name]
    if named:
        return named[0]
    if folder := cached_folder(name):
        return str(folder)
    raise ModelError(
        f"the place names the model {quoted(name)}, and swarm opens no model that a place names. If you trust "
        "it, set MODEL_NAME to its whole name or folder"
    )


def base_of(folder: Path, saved: SavedAdapter) -> str:
    """Returns the base of an adapter in a folder: of one that lies in a shared place as own_model, else what it names.

    Raises:
        ModelError: as own_model.
    """
    if not lies_in_a_place(folder):
        return saved.base_model_name_or_path
    try:
        return own_model(saved.base_model_name_or_path)
    except ModelError:
        raise ModelError(
            f"{folder} holds an adapter of {quoted(saved.base_model_name_or_path)}, and swarm opens no model "
            "that a place names. If you trust it, set MODEL_NAME to its base, write the whole model by "
            "`swarm model export "
            "NODE --merged`, and name that"
        ) from None
