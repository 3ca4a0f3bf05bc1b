"""An environment with one wheel in it, and the packages of this environment beneath."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path


def run(*command: str | Path, **keywords: object) -> str:
    """What a command says; it has to succeed. It sees no PYTHONPATH, which would name this checkout."""
    keywords.setdefault("env", {name: value for name, value in os.environ.items() if name != "PYTHONPATH"})
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False, **keywords)  # type: ignore[call-overload]
    assert done.returncode == 0, done.stdout + done.stderr
    return str(done.stdout)


def install(wheel: Path, home: Path) -> Path:
    """Make an environment in `home`; its `bin`."""
    venv.create(home, with_pip=False)
    run(sys.executable, "-m", "pip", "--python", home, "install", "--no-deps", "--quiet", wheel)
    (packages,) = (home / "lib").glob("python*/site-packages")
    beneath = [path for path in sys.path if path.endswith("site-packages")]
    (packages / "beneath.pth").write_text("\n".join(beneath) + "\n")
    return home / "bin"
