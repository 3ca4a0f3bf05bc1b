"""`swarm plan` says what fits, and its exit code says whether."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from swarm.cli import plan as command
from swarm.cli.main import run
from swarm.cli.plan_text import size
from swarm.config import Settings
from swarm.policy import planner
from swarm.policy.device_memory import DeviceMemory
from swarm.policy.probe import ProbeReport, ProbeTask

ON_CPU = ["plan", "--device", "cpu", "--nodes", "3"]


def have(monkeypatch: pytest.MonkeyPatch, free: int) -> None:
    memory = DeviceMemory(device="cpu", free=free, total=10**10, host_free=free)
    monkeypatch.setattr(planner, "device_memory", lambda _: memory)


def answer(monkeypatch: pytest.MonkeyPatch, report: ProbeReport) -> list[tuple[Settings, ProbeTask]]:
    """Have every probe answer like this; what was asked is in the list."""
    asked: list[tuple[Settings, ProbeTask]] = []

    def probe(settings: Settings, task: ProbeTask) -> ProbeReport:
        asked.append((settings, task))
        return report

    monkeypatch.setattr(command, "probe", probe)
    return asked


def test_a_swarm_that_fits_is_a_table_and_exit_code_0(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    have(monkeypatch, 10**10)
    assert run([*ON_CPU, "--no-probe", "--model", "tiny-qwen2,tiny-gpt2"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "3 nodes of tiny-qwen2, tiny-gpt2 on cpu, one process each"
    assert lines[3].split() == ["memory", "one", "node", "3", "nodes"]
    assert any(line.startswith("fits: 3 nodes on cpu need ") for line in lines)
    assert any(line.startswith("largest that fits: ") for line in lines)


def test_a_swarm_that_does_not_fit_is_exit_code_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    have(monkeypatch, 10**8)
    assert run(ON_CPU) == 1
    said = capsys.readouterr().out
    assert "does not fit: 3 nodes on cpu need " in said
    assert "probe" not in said


def test_json_holds_the_plan_and_the_probe(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    have(monkeypatch, 10**10)
    answer(monkeypatch, ProbeReport(loaded=1, generation=2, update=3))
    assert run([*ON_CPU, "--in-process", "--json"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert (content["fits"], content["in_process"], content["nodes"]) == (True, True, 3)
    assert content["needed"] == sum(part["all"] for part in content["parts"])
    assert content["probe"]["update"] == 3


def test_the_probe_runs_what_was_chosen_and_is_shown_beside_the_prediction(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    have(monkeypatch, 10**10)
    asked = answer(monkeypatch, ProbeReport(loaded=10**6, generation=2 * 10**6, update=3 * 10**9))
    assert run([*ON_CPU, "--local", "2"]) == 0
    ((settings, task),) = asked
    assert (settings.local_groups, settings.device, settings.gradient_checkpointing) == (2, "cpu", False)
    assert task == ProbeTask(prompt_tokens=59, new_tokens=24)
    said = capsys.readouterr().out
    assert "probe of one node: peaks loaded 1.0 MB, generation 2.0 MB, update 3.00 GB; predicted " in said


@pytest.mark.parametrize(("refuted", "code"), [(True, 1), (False, 0)])
def test_a_probe_that_dies_overrules_the_prediction_and_a_slow_one_does_not(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], refuted: bool, code: int
) -> None:
    have(monkeypatch, 10**10)
    answer(monkeypatch, ProbeReport(problem="it ended", refuted=refuted))
    assert run(ON_CPU) == code
    assert "nothing measured; predicted" in capsys.readouterr().out


def test_a_model_of_unknown_size_is_a_message(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*ON_CPU, "--model", str(tmp_path)]) == 1
    assert "its size cannot be known" in capsys.readouterr().err


def test_a_run_whose_memory_cannot_be_planned_has_no_plan_and_a_reason(tmp_path: Path) -> None:
    with capture_logs() as logs:
        assert planner.plan_for(Settings(model=(str(tmp_path),)), 2, False) is None
    assert [line["event"] for line in logs] == ["plan.unknown"]
    assert "its size cannot be known" in logs[0]["problem"]


def test_no_nodes_are_wrong_usage() -> None:
    assert run(["plan", "--nodes", "0"]) == 2


def test_planning_without_a_probe_imports_no_torch() -> None:
    code = (
        "import sys; from swarm.cli.main import run;"
        "code = run(['plan', '--no-probe', '--device', 'cpu']);"
        "heavy = [name for name in ('torch', 'transformers', 'numpy') if name in sys.modules];"
        "sys.exit(repr(heavy) if heavy else code)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(("number", "text"), [(0, "0.0 MB"), (1_500_000, "1.5 MB"), (2_340_000_000, "2.34 GB")])
def test_sizes_are_in_mb_or_gb(number: int, text: str) -> None:
    assert size(number) == text
