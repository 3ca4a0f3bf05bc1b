"""`swarm model build`: make the embedded tiny models again."""

from __future__ import annotations

import sys
from pathlib import Path

from swarm.errors import ConfigError


def build(output_dir: Path, *, names: str | None = None, seed: int = 0) -> None:
    """Train the embedded tiny models from nothing: about ten minutes for each on one core.

    Args:
        output_dir: Folder that gets one folder per model.
        names: Which models, separated by commas; all if not given.
        seed: The models depend on nothing else.
    """
    from swarm.policy.embedded import EMBEDDED  # imported here, since the training behind it imports torch
    from swarm.policy.warmup import build_embedded_models

    chosen = tuple(name.strip() for name in names.split(",")) if names else EMBEDDED
    if unknown := set(chosen) - set(EMBEDDED):
        raise ConfigError(f"--names must be among {', '.join(EMBEDDED)}, got {', '.join(sorted(unknown))}")
    for report in build_embedded_models(output_dir, names=chosen, seed=seed, on_progress=_progress):
        sys.stdout.write(f"{report.path}: {report.parameters} parameters, starting reward {report.reward:.3f}\n")


def _progress(name: str, step: int, steps: int, loss: float) -> None:
    sys.stderr.write(f"{name}: step {step} of {steps}, loss {loss:.3f}\n")
