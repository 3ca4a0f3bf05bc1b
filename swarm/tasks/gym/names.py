"""Knows which datasets the installed reasoning-gym has, and what may be asked of them, without importing any of it.

A dataset's module says `register_dataset("name", ...)`, mostly by a constant DATASET_NAME; that is looked for in the
package's source.
"""

from __future__ import annotations

import functools
import importlib.util
import re
from pathlib import Path

from swarm.config.task_table import NEWEST_SCORING, SCORING, WEIGHT
from swarm.errors import ConfigError
from swarm.spelling import did_you_mean
from swarm.tasks.definitions import Parameters, malformed

PACKAGE = "reasoning_gym"
DATASET = "gym"
"""Key of a definition: the dataset, where it is not the task's own name."""
LEVEL = "level"
"""Key of a definition: how far up the library's own curriculum."""
OWN_KEYS = frozenset({DATASET, LEVEL, SCORING, WEIGHT})
"""Keys of a definition that are none of the dataset's parameters."""
OF_THE_ORIGIN = ("seed", "size")
"""Parameters that every dataset has, and no definition."""
LIST = "`python -P -m swarm.tasks.gym` lists them"
REFUSED = {
    "codeio": "it runs Python programs to make its questions, which a scoring process may not",
    "composite": "it mixes other datasets: give each a table [tasks.NAME] with a weight instead",
}
"""Dataset -> why no run may ask it."""

_REGISTERED = re.compile(rb'\nregister_dataset\(\s*(?:DATASET_NAME|["\'](\w+)["\'])')
_CONSTANT = re.compile(rb'^DATASET_NAME = ["\'](\w+)["\']', re.MULTILINE)


def dataset_names() -> tuple[str, ...]:
    """Returns all that can be asked, in alphabetical order. Raises ConfigError: reasoning-gym is not installed."""
    return tuple(name for name in modules() if name not in REFUSED)


def dataset_of(name: str, parameters: Parameters) -> str:
    """Returns the dataset of a definition. Raises ConfigError: there is none of that name, or it cannot be asked."""
    dataset = parameters.get(DATASET, name)
    if not isinstance(dataset, str):
        raise malformed(name, f"{DATASET} must be the name of a dataset of reasoning-gym, got {dataset!r:.80}")
    if dataset in REFUSED:
        raise malformed(name, f"reasoning-gym's dataset {dataset!r} cannot be asked: {REFUSED[dataset]}")
    if dataset not in modules():
        guess = did_you_mean(dataset, dataset_names())
        raise malformed(name, f"the installed reasoning-gym has no dataset {dataset!r:.80}{guess}; {LIST}")
    return dataset


def check(name: str, parameters: Parameters) -> None:
    """See what can be seen of a definition without the library. Raises ConfigError."""
    dataset_of(name, parameters)
    for key in OF_THE_ORIGIN:
        if key in parameters:
            raise malformed(name, f"{key} is given by each question's origin and cannot be set; leave it out")
    level = parameters.get(LEVEL, 0)
    if type(level) is not int or level < 0:
        raise malformed(name, f"{LEVEL} must be a whole number from 0, got {level!r:.80}")
    if (scoring := parameters.get(SCORING)) != NEWEST_SCORING:
        raise malformed(name, f"{SCORING} must be {NEWEST_SCORING}, the only one of this version, got {scoring!r:.80}")


@functools.cache
def modules() -> dict[str, str]:
    """Dataset -> its module. Raises ConfigError: reasoning-gym is not installed."""
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise ConfigError(f"no package {PACKAGE!r}; install reasoning-gym")
    folder = Path(spec.submodule_search_locations[0])
    found = {dataset: path for path in folder.rglob("*.py") if (dataset := _registered(path.read_bytes()))}
    parts = {dataset: path.relative_to(folder).with_suffix("").parts for dataset, path in sorted(found.items())}
    return {dataset: ".".join((PACKAGE, *of)) for dataset, of in parts.items()}


def _registered(source: bytes) -> str | None:
    """Returns the dataset that a module registers."""
    at = source.find(b"\nregister_dataset(")
    call = _REGISTERED.match(source, at) if at >= 0 else None
    constant = _CONSTANT.search(source) if call and not call[1] else call
    return constant[1].decode() if constant else None
