"""Says where the embedded models lie that only studies, and runs of earlier versions, use; for `swarm.models`."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

_MODELS = Path(str(files("swarm.plugins.lab"))) / "assets" / "models"
TINY_2_QWEN2_RARE = _MODELS / "tiny-2-qwen2-rare"
TINY_GPT2 = _MODELS / "tiny-gpt2"
TINY_QWEN2_RARE = _MODELS / "tiny-qwen2-rare"
