"""Writes what pip leaves of an installed package: its modules, and the metadata that names its entry points."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path


def install(folder: Path, name: str, groups: Mapping[str, Mapping[str, str]], **modules: str) -> Path:
    """Install a package of these modules' sources in a folder, and return the folder, which is to stand on the path."""
    metadata = folder / f"{name.replace('-', '_')}-1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    tables = [
        f"[{group}]\n" + "".join(f"{key} = {value}\n" for key, value in one.items()) for group, one in groups.items()
    ]
    (metadata / "entry_points.txt").write_text("\n".join(tables))
    for module, source in modules.items():
        (folder / f"{module}.py").write_text(source)
    return folder
