"""Datasets of the Hugging Face hub, fetched once by the node that begins the run."""

from __future__ import annotations

import re
from pathlib import Path

from swarm.extras import lacking
from swarm.tasks.dataset.files import SUFFIXES
from swarm.tasks.definitions import malformed

_ID = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}")


def is_id(text: str) -> bool:
    """Tells whether it may be a dataset of the hub, such as openai/gsm8k."""
    return _ID.fullmatch(text) is not None and Path(text).suffix.lower() not in SUFFIXES


def fetch(name: str, dataset: str, config: str = "") -> Path:
    """Returns the local folder of a dataset's files, fetched unless they are there; its name tells the dataset.

    Raises:
        ConfigError: the hub does not have it, or cannot be reached.
    """
    try:
        from huggingface_hub import constants, snapshot_download
    except ModuleNotFoundError:
        raise lacking(f"the dataset {dataset}", "huggingface_hub", "analysis") from None
    folder = Path(constants.HF_HOME) / "swarm" / dataset.replace("/", "--")
    wanted = [f"{config}/*{suffix}" if config else f"*{suffix}" for suffix in SUFFIXES]
    try:
        snapshot_download(dataset, repo_type="dataset", allow_patterns=wanted, local_dir=folder)
    except Exception as error:  # noqa: BLE001 - the boundary: the hub's client raises what its HTTP libraries raise
        raise malformed(
            name,
            f"no file {dataset} here, and the Hugging Face hub does not give a dataset of that name: {error!s:.300}; "
            "fetch it elsewhere (`hf download --repo-type dataset`) and name its folder",
        ) from None
    return folder
