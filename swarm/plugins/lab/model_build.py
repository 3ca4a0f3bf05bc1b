"""`swarm model build`: make the embedded tiny models again, or the specialists of the study of that name."""

from __future__ import annotations

import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from itertools import chain
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING

from swarm.errors import ConfigError
from swarm.systems import require_for

if TYPE_CHECKING:
    from swarm.plugins.lab.warmup.build import BuildReport
    from swarm.plugins.lab.warmup.models import Architecture
    from swarm.plugins.lab.warmup.specialists import SpecialistReport

SPECIALISTS = "specialists"
"""Six models, by one name: three that know a third of the tables of facts each, in two architectures."""
ARCHITECTURES: tuple[Architecture, ...] = ("qwen2", "gpt2")


def build(
    output_dir: Path,
    *,
    names: str | None = None,
    seed: int = 0,
    well_formed: float | None = None,
    right: float | None = None,
    width: int | None = None,
) -> None:
    """Train the embedded tiny models anew: about a quarter of an hour, each on a core of its own.

    Args:
        output_dir: Folder that gets one folder per model.
        names: Which models, separated by commas; all embedded ones if not given. `specialists` is six of them, some
            minutes of one core, for docs/study/specialists.md.
        seed: The models depend on nothing else, but for the next one.
        well_formed: Share of the last stage's examples that are written as the verifier asks, 0 to 1, instead of the
            model's own: it sets the starting reward.
        right: Share of the last stage's examples with a right answer, 0 to 1, instead of the model's own.
        width: Hidden size instead of 128, for a ladder of model sizes; a multiple of 8 from 16 to 1024. The folder's
            name ends with it. A wider model takes longer.
    """
    from swarm.policy.embedded import EMBEDDED  # imported here, for the sake of the commands beside this one

    require_for("`swarm model build`")
    chosen = tuple(name.strip() for name in names.split(",")) if names else EMBEDDED
    if unknown := set(chosen) - {*EMBEDDED, SPECIALISTS}:
        known = ", ".join((*EMBEDDED, SPECIALISTS))
        raise ConfigError(f"--names must be among {known}, got {', '.join(sorted(unknown))}")
    if SPECIALISTS in chosen and (well_formed, right, width) != (None, None, None):
        raise ConfigError(
            f"--well-formed, --right and --width change embedded models alone: leave them out, or {SPECIALISTS}"
        )
    for flag, share in (("--well-formed", well_formed), ("--right", right)):
        if share is not None and not 0 <= share <= 1:
            raise ConfigError(f"{flag} must be from 0 to 1, got {share:g}")
    if width is not None:
        _check_width(width)
    embedded = [name for name in chosen if name != SPECIALISTS]
    threes = ARCHITECTURES if SPECIALISTS in chosen else ()
    with ProcessPoolExecutor(len(embedded) + len(threes), mp_context=get_context("spawn")) as processes:
        built = processes.map(partial(_build_one, output_dir, seed, well_formed, right, width), embedded)
        three = processes.map(partial(_build_specialists, output_dir, seed), threes)
        for line in chain(built, *three):
            sys.stdout.write(f"{line}\n")


def _build_specialists(output_dir: Path, seed: int, architecture: Architecture) -> list[str]:
    from swarm.plugins.lab.warmup.specialists import build_specialists  # torch, in the child alone

    return [_said(one) for one in build_specialists(output_dir, architecture, seed=seed)]


def _said(built: BuildReport | SpecialistReport) -> str:
    return f"{built.path}: {built.parameters} parameters, starting reward {built.reward:.4f}"


def _check_width(width: int) -> None:
    from swarm.plugins.lab.warmup.models import WIDTHS  # as above

    low, high, step = WIDTHS
    if not low <= width <= high or width % step:
        raise ConfigError(f"--width must be a multiple of {step} from {low} to {high}, got {width}")


def _build_one(
    output_dir: Path, seed: int, well_formed: float | None, right: float | None, width: int | None, name: str
) -> str:
    from swarm.plugins.lab.warmup.build import PLANS, build_embedded_model  # torch, in the child alone

    plan = PLANS[name]
    *first, last = plan.stages
    last = replace(
        last,
        p_well_formed=last.p_well_formed if well_formed is None else well_formed,
        p_right=last.p_right if right is None else right,
    )
    plan = replace(plan, stages=(*first, last), width=width or plan.width)
    return _said(build_embedded_model(output_dir, name, seed=seed, plan=plan))
