"""The page of a study in a real browser."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

pytest.importorskip("matplotlib")
pytest.importorskip("scipy")

from swarm.plugins.study.record import DeclaredComparison
from swarm.plugins.study.report.write import write_report
from tests.plugins.study.report.report_factory import write_study

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), "")
pytestmark = [pytest.mark.engine, pytest.mark.skipif(not BROWSER, reason="no chromium is installed")]
DESKTOP = (1200, 800)
MEASURE = """<script>document.title = JSON.stringify(Object.fromEntries([...document.querySelectorAll(".scroll")].map(
  box => [box.querySelector("table").id, box.scrollWidth - box.clientWidth]).concat(
  [["page", document.documentElement.scrollWidth - window.innerWidth]])))</script>"""


def overflow_of(page: Path) -> dict[str, int]:
    """Table -> pixels by which it is wider than its place; `page` -> likewise the page in its window."""
    measured = page.with_name("measured.html")
    measured.write_text(page.read_text(encoding="utf-8").replace("</body>", f"{MEASURE}</body>"), encoding="utf-8")
    size = f"--window-size={DESKTOP[0]},{DESKTOP[1]}"
    command = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", size, "--dump-dom", measured.as_uri()]
    dom = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    found = re.search(r"<title>(.*?)</title>", dom)
    assert found
    widths: dict[str, int] = json.loads(found[1])
    return widths


def test_no_column_is_cut_off_on_a_desktop(tmp_path: Path) -> None:
    names = ("gsm-8/0-baseline", "gsm-4/4-multi-signal-scaled", "gsm-6/2-reward-trend-scaled")
    hypothesis = "It earns more. " * 8
    declared = [
        DeclaredComparison(configuration=name, baseline=names[0], measure="reward_given_tagged", hypothesis=hypothesis)
        for name in names[1:]
    ]
    write_study(tmp_path, configurations=names, declared=declared)
    found = overflow_of(write_report(tmp_path, "small", formats=()))
    assert {"declared", "comparison", "factors", "page"} <= found.keys()
    assert {table: pixels for table, pixels in found.items() if pixels > 0} == {}
