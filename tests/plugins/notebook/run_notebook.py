"""Executes a notebook in place: `run_notebook.py PYTHON NOTEBOOK [CELL]`; exit 1 where a cell fails.

PYTHON runs the kernel, this process stands for the browser. With CELL it goes as far as that one, presses the stop
button when that has said something, and ends the kernel as `Restart` does.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import nbformat
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

SECONDS_PER_CELL = 700
POLL_SECONDS = 0.1


def kernel_of(python: str) -> AsyncKernelManager:
    spec = Path("kernels") / "here"
    spec.mkdir(parents=True, exist_ok=True)
    argv = [python, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    (spec / "kernel.json").write_text(json.dumps({"argv": argv, "display_name": "here", "language": "python"}))
    specs = KernelSpecManager(kernel_dirs=[str(spec.parent.absolute())], ensure_native_kernel=False)
    return AsyncKernelManager(kernel_name="here", kernel_spec_manager=specs)


async def main(python: str, file: Path, leave_at: str = "") -> int:
    notebook, kernel = nbformat.read(file, as_version=4), kernel_of(python)
    client = NotebookClient(notebook, km=kernel, timeout=SECONDS_PER_CELL)
    client.reset_execution_trackers()
    try:
        async with client.async_setup_kernel():
            for index, cell in enumerate(notebook.cells):
                executing = asyncio.create_task(client.async_execute_cell(cell, index))
                if cell.id == leave_at:
                    await stopped(kernel, cell, executing)
                    return 0
                await executing
    except CellExecutionError:
        return 1
    finally:
        nbformat.write(notebook, file)
        await kernel.shutdown_kernel()
    return 0


async def stopped(kernel: AsyncKernelManager, cell: Any, executing: asyncio.Task[Any]) -> None:
    """Press the stop button when a cell shows that a round is done."""
    while "done" not in json.dumps(cell.outputs) and (await asyncio.wait({executing}, timeout=POLL_SECONDS))[1]:
        pass
    await kernel.interrupt_kernel()
    await executing


if __name__ == "__main__":
    raise SystemExit(asyncio.run(main(sys.argv[1], Path(sys.argv[2]), *sys.argv[3:])))
