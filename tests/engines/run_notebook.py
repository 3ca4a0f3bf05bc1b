"""Executes a notebook in place, all its cells: `run_notebook.py PYTHON NOTEBOOK`; exit 1 where a cell fails.

PYTHON runs the kernel, this process stands for the browser.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import nbformat
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

SECONDS_PER_CELL = 700


def main(python: str, file: Path) -> int:
    spec = Path("kernels") / "here"
    spec.mkdir(parents=True, exist_ok=True)
    argv = [python, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    (spec / "kernel.json").write_text(json.dumps({"argv": argv, "display_name": "here", "language": "python"}))
    specs = KernelSpecManager(kernel_dirs=[str(spec.parent.absolute())], ensure_native_kernel=False)
    notebook = nbformat.read(file, as_version=4)
    kernel = AsyncKernelManager(kernel_name="here", kernel_spec_manager=specs)
    client = NotebookClient(notebook, km=kernel, timeout=SECONDS_PER_CELL)
    try:
        client.execute()
    except CellExecutionError:
        return 1
    finally:
        nbformat.write(notebook, file)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1], Path(sys.argv[2])))
