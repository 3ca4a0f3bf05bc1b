"""A working folder in which every import would be a stranger's: each of its modules leaves a mark and fails."""

from __future__ import annotations

from pathlib import Path

MARK = "executed"
_NAMES = ("anyio", "torch", "transformers", "msgspec", "structlog", "watchfiles", "reasoning_gym", "json", "random")
_MODULE = f"open({MARK!r} + '-' + __name__, 'w').close(); raise ImportError('a stranger was here')\n"


def make_hostile(folder: Path, packages: tuple[str, ...] = ("services", "swarm")) -> Path:
    """Fill a folder with modules of the names that a child might import, and with these packages."""
    for name in (*_NAMES, "sitecustomize", "usercustomize"):
        (folder / f"{name}.py").write_text(_MODULE)
    for package in packages:
        (folder / package).mkdir()
        for module in ("__init__", "__main__", "coordinator", "worker", "workers", "judge"):
            (folder / package / f"{module}.py").write_text(_MODULE)
    return folder


def marks(folder: Path) -> list[str]:
    """What was executed in it."""
    return sorted(file.name for file in folder.glob(f"{MARK}-*"))
