"""Sets up a session in Colab, or in any notebook, before its commands: Google Drive, secrets, the settings.

Secrets go into the environment alone, where commands look for them: never into a cell's output, an argument or a file.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable
from getpass import getpass
from typing import Any

from swarm.errors import ConfigError
from swarm.planner.device_memory import device_memory
from swarm.policy.embedded import any_embedded

DRIVE = "/content/drive"
"""Where Colab shows Google Drive."""
EMBEDDED = "tiny-2-qwen2"


def mount_drive(places: Iterable[str]) -> None:
    """Mount Google Drive in Colab if any of these places lies in it.

    Raises:
        ConfigError: one does, and this is no Colab.
    """
    if not any(place == DRIVE or place.startswith(f"{DRIVE}/") for place in places):
        return
    colab = _colab("drive")
    if colab is None:
        raise ConfigError(f"{DRIVE} is Google Drive in Colab, and this is no Colab: name another folder")
    colab.mount(DRIVE)


def take_secrets(names: Iterable[str], ask: bool = False) -> None:
    """Put secrets into the environment: from there, from Colab's own (the key in its margin), or typed unseen.

    Args:
        names: of environment variables, such as HUGGINGFACE_ACCESS_TOKEN; in Colab secrets bear the same names.
        ask: those that neither has are asked for, one by one; an empty answer leaves one out.
    """
    for name in names:
        where = "the environment"
        if not os.environ.get(name):
            value, where = _secret_of_colab(name), "Colab's secrets"
            if not value and ask:
                value, where = getpass(f"{name} (empty: none): "), "what was typed"
            if value:
                os.environ[name] = value
        print(f"{name}: {f'from {where}' if os.environ.get(name) else 'none'}")


def set_up(path: str, experiment: str, mirror: str = "", model: str = "") -> None:
    """Give all commands that this notebook starts the same settings, as `export` does in a terminal.

    Args:
        path: the shared place, a folder or a bucket's URL.
        experiment: its name.
        mirror: a second place, from which a lost one is brought back (docs/buckets.md); empty: none.
        model: which one nodes train; empty: what `swarm` has by default.
    """
    os.environ.pop("GDRIVE_PATH", None)  # the other name of the first
    values = {"SWARM_PATH": path, "EXPERIMENT_NAME": experiment, "SWARM_MIRROR": mirror, "MODEL_NAME": model}
    for name, value in values.items():
        if value:
            os.environ[name] = value
            print(f"export {name}={shlex.quote(value)}")
        else:
            os.environ.pop(name, None)


def model_here(model: str) -> str:
    """Returns the model if this machine has a GPU, or if it is an embedded one; otherwise an embedded one, and that is
    said."""
    if any_embedded((model,)) or device_memory(None).is_gpu:
        return model
    print(
        f"no GPU is here: {EMBEDDED}, which is part of the package, in place of {model} (Runtime, Change runtime type)"
    )
    return EMBEDDED


def _secret_of_colab(name: str) -> str:
    """Empty where there is none, or this notebook may not see it."""
    userdata = _colab("userdata")
    if userdata is None:
        return ""
    try:
        return str(userdata.get(name) or "")
    except (userdata.SecretNotFoundError, userdata.NotebookAccessError):
        return ""


def _colab(part: str) -> Any:
    """Returns a module of google.colab; None elsewhere."""
    try:
        from google import colab
    except ImportError:
        return None
    return getattr(colab, part)
