"""Digests what decides, beside its settings, what a run computes: our own code, functions of the user's, models,
libraries.

    counts                                                    does not count
    ──────────────────────────────────────────────────────────────────────────────────────────────────────────────────
    types lines errors children       what the rest is made   cli views logs     ask, show, tell
    forms                             of                      extras spelling
                                                              harmless           choose settings, which are recorded
    plugins that join in a run                                other plugins
    config          what settings mean and are by default     services           start `swarm node`
    algo tasks policy wire            questions, rewards,
                                      updates, what is shared
    store records signing node        what is read when, by   judge              but where a judge was asked for
                    whom, in which order
    planner         micro-batches, so the order of sums

The text of every Python file of a part counts, comments and all: to be taken for other code by mistake costs a run, to
be taken for the same costs a result. Versions of libraries are compared beside it.

`made_with` puts it together for the record of a node's start, with the machine that the node runs on.
"""

from __future__ import annotations

import hashlib
import os
import platform
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import swarm
from swarm import entry_points
from swarm.config import FUNCTIONS, Settings, StartRequest
from swarm.config.own_code import OwnCode, own_codes, source_file
from swarm.entry_points import EntryPoint
from swarm.extras import NAME
from swarm.planner.free_memory import host_memory
from swarm.policy.hub import cached_folder
from swarm.policy.model_files import local_folder
from swarm.tasks.registry import NO_TASKS, Families, plugins_asked
from swarm.wire.messages import MadeWith

PARTS = (
    *("types.py", "forms.py", "lines.py", "errors.py", "children.py", "instruction.py"),
    *(
        "config",
        "algo",
        "tasks",
        "policy",
        "remote",
        "wire",
        "store",
        "records",
        "signing",
        "node",
        "planner",
    ),
)
"""Files and folders of the package whose code decides what a run computes."""
JUDGE_PARTS = ("judge",)
"""And those that decide it where a judge is asked for."""
LIBRARIES = ("torch", "transformers", "anyio", "watchfiles", "msgspec", "structlog")
"""Packages whose versions are recorded, beside those of the task families."""


def made_with(settings: Settings, asked: StartRequest) -> MadeWith:
    """Returns what a node of this process is started with, but for its settings. Reads its code and its local models.

    Args:
        asked: the command that started it, and where its settings came from.
    """
    return MadeWith(
        command=asked.command,
        sources=dict(asked.sources),
        versions=versions(settings),
        code=code_digest(own_modules(settings), judged=False, plugins=own_plugins(settings)),
        models=model_revisions(settings.model) if settings.loads_model else {},
        machine=machine(),
    )


def versions(settings: Settings | None = None) -> dict[str, str]:
    """Returns the versions on which the figures of a run depend: of these settings, or of a run of the first family."""
    families = Families(settings.task_families) if settings else Families()
    ours = {"swarm": swarm.__version__, "python": platform.python_version()}
    return ours | {name: version(name) for name in (*LIBRARIES, *families.packages)}


def machine() -> dict[str, Any]:
    """This machine, without a name of it: `system`, `processor`, `cores` that this process may use, `memory_bytes`, and
    `gpus` where a driver of NVIDIA's lists any."""
    return {
        "system": platform.platform(),
        "processor": _named_in(Path("/proc/cpuinfo"), "model name") or platform.processor(),
        "cores": cores(),
        "memory_bytes": host_memory()[1],
    } | ({"gpus": gpus} if (gpus := _gpus()) else {})


def cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _gpus() -> list[str]:
    """Models by the driver's own word, as torch is not loaded here."""
    files = sorted(Path("/proc/driver/nvidia/gpus").glob("*/information"))
    return [name for file in files if (name := _named_in(file, "Model"))]


def _named_in(file: Path, field: str) -> str:
    """The first value of a field in a file of `field : value` lines; empty where there is none."""
    try:
        lines = file.read_text("utf-8", "replace").splitlines()
    except OSError:
        return ""
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(field)), "")


def own_modules(settings: Settings) -> frozenset[OwnCode]:
    """Returns the modules of the user's own functions, families and plugins that a run with these settings calls."""
    named = own_codes([getattr(settings, name) for name in (*FUNCTIONS, "task_families")])
    others = (OwnCode(entry.value) for entry in _joining(settings) if entry.distribution != NAME)
    return frozenset(code.module for code in (*named, *others))


def own_plugins(settings: Settings) -> tuple[str, ...]:
    """Returns our plugins that take part in a run with these settings."""
    joining = {entry.value.split(".")[2] for entry in _joining(settings) if entry.distribution == NAME}
    return tuple(sorted(joining | plugins_asked(settings.task_families, settings.task_table or NO_TASKS)))


def _joining(settings: Settings) -> list[EntryPoint]:
    on = settings.plugins
    groups = [entry_points.found(group) for group in (entry_points.HOOKS, entry_points.TRAINING)] if on else []
    rules = entry_points.bundled(entry_points.RULES) if settings.adaptive else {}
    rule = [rules[settings.adaptive_rule]] if settings.adaptive_rule in rules else []
    return [*(group[name] for group in groups for name in on if name in group), *rule]


def code_digest(
    own: frozenset[OwnCode] = frozenset(), *, judged: bool, plugins: Sequence[str] = (), package: Path | None = None
) -> str:
    """Returns the digest of the code that a run goes through. Reads every file of it.

    Args:
        own: the run's `own_modules`.
        plugins: its `own_plugins`.
        judged: a judge is asked for.
        package: the folder of the package `swarm`.

    Returns:
        Hexadecimal digits; empty where a function of the user's own has no source that can be read.
    """
    root = package or Path(swarm.__file__).parent
    parts = (*PARTS, *(JUDGE_PARTS if judged else ()), *(f"plugins/{name}" for name in plugins))
    named = [root / part for part in parts]
    sources = sorted({file for part in named for file in (part.rglob("*.py") if part.is_dir() else [part])})
    owned = [_source(module) for module in sorted(own)]
    if None in owned:
        return ""
    digest = hashlib.sha256()
    ours = ((file.relative_to(root).as_posix(), file) for file in sources)
    for name, file in (*ours, *(one for one in owned if one)):
        _add(digest, name, file)
    return digest.hexdigest()


def _source(module: OwnCode) -> tuple[str, Path] | None:
    """Name and file of a module; what it imports in its turn does not count."""
    try:
        file = source_file(module)
    except (ImportError, ValueError):
        return None
    return (module, file) if file else None


def model_revisions(names: Iterable[str]) -> dict[str, str]:
    """Model -> digest of its files' content, or the commit of the Hugging Face Hub's that the cache of this machine
    has; left out where it has none."""
    cached = {name: cached_folder(name) for name in names if not local_folder(name)}
    return model_digests(names) | {name: f"commit {commit.name}" for name, commit in cached.items() if commit}


def model_digests(names: Iterable[str]) -> dict[str, str]:
    """Model -> digest of its files' content, of embedded models and local folders.

    A model of the Hugging Face Hub is left out: only its name is known before it is loaded.
    """
    folders = {name: local_folder(name) for name in names}
    return {name: _of_folder(folder, _state(folder)) for name, folder in folders.items() if folder is not None}


def _files(folder: Path) -> Iterator[Path]:
    return (found for found in sorted(folder.rglob("*")) if found.is_file())


def _state(folder: Path) -> tuple[tuple[str, int, int], ...]:
    """Returns by what a file counts as unchanged within one process, so that gigabytes are read once."""
    return tuple((str(file), file.stat().st_size, file.stat().st_mtime_ns) for file in _files(folder))


@lru_cache(maxsize=64)
def _of_folder(folder: Path, state: tuple[tuple[str, int, int], ...]) -> str:
    digest = hashlib.sha256()
    for file, _, _ in state:
        _add(digest, Path(file).relative_to(folder).as_posix(), Path(file))
    return digest.hexdigest()


def _add(digest: hashlib._Hash, name: str, file: Path) -> None:
    """Name and content, each by its own digest, so that no two lists of files look alike."""
    digest.update(hashlib.sha256(name.encode()).digest())
    with file.open("rb") as opened:
        digest.update(hashlib.file_digest(opened, "sha256").digest())
