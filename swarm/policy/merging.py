"""An adapter and its base as one model, in the files that transformers reads.

folder of the adapter ──load_model──▶ base + B A alpha / r, fp32 ──▶ config.json, tokenizer..., model.safetensors
"""

from __future__ import annotations

from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import save_file

from swarm.errors import StoreError
from swarm.policy.given_weights import named_weights
from swarm.policy.model import load_model
from swarm.policy.model_files import WEIGHTS as WHOLE
from swarm.policy.snapshot import read_model_files


def write_merged(adapter: Path, target: Path, base: str | None = None, hub_token: str | None = None) -> int:
    """Write the whole model into an existing folder, in fp32; tied matrices once, as transformers ties them.

    A base that was held in few bits is merged into as its files have it.

    Args:
        base: the model that it is added to; None: what the adapter names.

    Returns:
        How many files that were.

    Raises:
        ModelError: the adapter or its base cannot be had.
        StoreError: the folder cannot be written.
    """
    model = load_model(str(adapter), base=base, device="cpu", precision="fp32", hub_token=hub_token)
    files = read_model_files(model)
    weights = {name: tensor.detach().contiguous() for name, tensor in named_weights(model.module).items()}
    try:
        for name, content in files.items():
            (target / name).write_bytes(content)
        save_file(weights, target / WHOLE, metadata={"format": "pt"})
    except (OSError, SafetensorError) as error:
        raise StoreError(f"cannot write the model to {target}: {error}") from None
    return len(files) + 1
