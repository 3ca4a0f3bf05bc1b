"""What `swarm web` costs on a run of 2,000 rounds of 16 nodes.

    python -m benchmarks.web_views [--quick] [--rounds 2000] [--nodes 16] [--repetitions 5]

    first look     processor time until the service has read the run, once, when it starts
    first page     from asking for the page to its first chart, in Chromium, of a service that has read the run
    live update    processor time of the service for one look at a run with a new row of every node, with its documents
    seen after     from the last byte of such rows to the page that shows them; looks are a second apart
    memory         resident set of the service, most of it
    export         bytes of the frozen page
    status, logs   processor time of the whole commands on the same place

Aims: first page under 1.5 s, live update under 0.1 s, seen within 2 s, export under 5 MB, status and logs under 0.3 s.
"""

from __future__ import annotations

import argparse
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, sync_playwright

from benchmarks.common import arguments_of, keep, summary
from benchmarks.made_place import append_round, make_place
from swarm.store.place import open_place
from swarm.web.harmless import encoded
from swarm.web.look import WebLook
from swarm.web.series import mark_of

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), "")
PATIENCE = 120_000
"""Milliseconds."""
UPDATES = 20


def cpu(work: Callable[[], object]) -> float:
    """Processor seconds of this process."""
    began = time.process_time()
    work()
    return time.process_time() - began


def in_process(place: Path, rounds: int, nodes: int) -> dict[str, Any]:
    """The service's work without a browser."""
    look = WebLook(open_place(place).open("made"), liveness_timeout=15.0)
    first = cpu(lambda: look.refresh(time.time()))
    series = cpu(lambda: encoded(look.series()))
    updates = list[float]()
    for number in range(UPDATES):
        mark = mark_of(look.history)
        append_round(place, rounds + number, nodes)
        updates.append(cpu(lambda mark=mark: update(look, mark)))  # type: ignore[misc]
    return {"first_look_cpu": first, "series_cpu": series, "live_update_cpu": summary(updates)}


def update(look: WebLook, mark: dict[str, tuple[int, int]]) -> None:
    """What a look for one page costs."""
    look.refresh(time.time())
    encoded({"standing": look.standing(), "news": look.news(mark)[0]})


@contextmanager
def served(place: Path, experiment: str) -> Iterator[tuple[str, int]]:
    """The link of a service of its own, and its process."""
    words = ["web", "--port", "0", "--path", str(place), "--experiment", experiment]
    with subprocess.Popen([sys.executable, "-m", "swarm", *words], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout
            link = re.search(r"http://\S+", process.stdout.readline())
            assert link
            yield link[0], process.pid
        finally:
            process.terminate()


def enter(page: Page, link: str) -> None:
    """Open the page by its link."""
    page.set_default_timeout(PATIENCE)
    page.goto(link)
    page.wait_for_url(re.compile(r"/$"))
    page.wait_for_selector("body[data-ready] canvas")


def in_browser(place: Path, rounds: int, nodes: int, repetitions: int) -> dict[str, Any]:
    """What a person sees."""
    loads, seen = list[float](), list[float]()
    with served(place, "made") as (link, process), sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        enter(page, link)
        for _ in range(repetitions):
            began = time.monotonic()
            page.reload()
            page.wait_for_selector("body[data-ready] canvas")
            loads.append(time.monotonic() - began)
        for number in range(repetitions):
            append_round(place, rounds + number, nodes)
            began = time.monotonic()
            page.wait_for_selector(f"figure .readout:has-text('round {rounds + number:,}:')")
            seen.append(time.monotonic() - began)
        memory = most_memory(process)
        browser.close()
    return {"first_page_seconds": summary(loads), "seen_after_seconds": summary(seen), "memory_bytes": memory}


def most_memory(process: int) -> int:
    """The largest resident set that a process has had, bytes."""
    said = Path(f"/proc/{process}/status").read_text()
    found = re.search(r"VmHWM:\s+(\d+) kB", said)
    return 1024 * int(found[1]) if found else 0


def of_command(place: Path, words: list[str], repetitions: int) -> dict[str, float]:
    """Processor seconds of a whole command."""
    found = list[float]()
    for _ in range(repetitions):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        whole = [sys.executable, "-m", "swarm", *words, "--path", str(place), "--experiment", "made"]
        subprocess.run(whole, stdout=subprocess.DEVNULL, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        found.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return summary(found)


def exported(place: Path) -> int:
    """Bytes of the frozen page."""
    target = place / "out.html"
    words = ["web", "--path", str(place), "--experiment", "made", "--export", str(target), "--force"]
    subprocess.run([sys.executable, "-m", "swarm", *words], stdout=subprocess.DEVNULL, check=True)
    return target.stat().st_size


def main() -> None:
    """Measure and keep."""
    parser = arguments_of(__doc__)
    parser.add_argument("--rounds", type=int, default=2000)
    parser.add_argument("--nodes", type=int, default=16)
    parser.add_argument("--repetitions", type=int, default=5)
    asked: argparse.Namespace = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = str(asked.threads)
    rounds, repetitions = (100, 2) if asked.quick else (asked.rounds, asked.repetitions)
    with tempfile.TemporaryDirectory() as folder:
        found = views(Path(folder), rounds, asked.nodes, repetitions)
    keep("web_views", found | {"rounds": rounds, "nodes": asked.nodes}, asked)


def views(place: Path, rounds: int, nodes: int, repetitions: int) -> dict[str, Any]:
    """What the page costs whoever shows it and whoever looks."""
    make_place(place, rounds, nodes)
    found: dict[str, Any] = {"export_bytes": exported(place)}
    found |= {name: of_command(place, words.split(), repetitions) for name, words in COMMANDS.items()}
    found |= in_process(place, rounds, nodes)
    return found | in_browser(place, rounds + UPDATES, nodes, repetitions)


COMMANDS = {"status_cpu": "status", "logs_cpu": "logs -n 50", "list_cpu": "logs -n 0"}
"""The last one is what a command costs that reads next to nothing."""


if __name__ == "__main__":
    main()
