"""`swarm bugreport`: enough to find a fault, nothing that names who has it, and no file without a yes."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import pytest

from swarm.cli import bugreport
from swarm.cli.main import run
from tests.layout import Layout
from tests.unit.views.factories import append_events, make_event, make_experiment, print_to


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")


def report_on(layout: Layout, *words: str) -> list[str]:
    return ["bugreport", "--no-doctor", "--path", str(layout.path), "--experiment", layout.experiment, *words]


def test_it_has_versions_settings_nodes_errors_and_events(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    layout = make_experiment(tmp_path)
    monkeypatch.setenv("SWARM_LEARNING_RATE", "0.001")
    failed = make_event("process.failed", 9e8, error=f"no room in {Path.home()}/x", level="error", code="SWARM-STORE")
    append_events(layout, "alice", failed)
    assert run(report_on(layout)) == 0
    said = capsys.readouterr().out
    for part in (
        "versions",
        "machine",
        "settings",
        "status",
        "hints",
        "starts",
        "warnings and errors",
        "events",
        "output",
    ):
        assert f"\n## {part}\n" in said
    assert "learning_rate           0.001 (from: environment variable SWARM_LEARNING_RATE)" in said
    assert "process.failed" in said
    assert "no room in ~/x" in said
    assert str(tmp_path) not in said


def test_a_path_with_spaces_is_replaced_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MODEL_NAME", "/srv/my secret client/acme model")
    assert run(report_on(make_experiment(tmp_path))) == 0
    assert "secret client" not in capsys.readouterr().out


def test_a_line_without_end_is_cut_and_not_in_the_middle_of_a_secret(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    layout, secret = make_experiment(tmp_path), "hf_" + "abcdefgh" * 4
    paths = f"/{'p' * 60} " * 24  # each is shown as <path>, so that what stands behind them is not cut
    lines = [f"{paths}{'x' * padding} {secret} " + "a" * 900_000 for padding in range(0, 100, 5)]
    append_events(layout, "alice", *(make_event("odd", 9e8, level="error", note=line) for line in lines))
    assert run(report_on(layout)) == 0
    said = capsys.readouterr().out
    assert "hf_" not in said
    assert len(said) < 200_000


def test_nothing_of_what_models_were_asked_or_said_is_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    layout = make_experiment(tmp_path)
    monkeypatch.setenv("HF_TOKEN", "tell-nobody")
    told = make_event("odd", 9e8, level="error", prompt="what is up", completion="the sky", note="tell-nobody\x1b[2J")
    append_events(layout, "alice", told)
    with layout.stdout_file("alice").open("a") as printed:
        printed.write("line\n" * 1000 + f"10:00 odd prompt='what is up' completion='the sky' in {tmp_path}\n")
        printed.write("Fatal Python error: tell-nobody \x1b[2J\n")
    assert run(report_on(layout)) == 0
    said = capsys.readouterr().out
    assert "<secret>" in said
    assert said.count("\nline\n") + said.count("\nline") < 3 * bugreport.PRINTED
    assert "Fatal Python error" in said
    for word in ("what is up", "the sky", "tell-nobody", "\x1b"):
        assert word not in said


def test_it_is_written_after_a_yes_alone_and_over_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    layout = make_experiment(tmp_path)
    assert run(report_on(layout)) == 0
    assert not Path(bugreport.FILE).exists()
    assert "nothing was written" in capsys.readouterr().out
    assert run(report_on(layout, "--write", "mine.txt")) == 0
    assert Path("mine.txt").read_text("utf-8") in capsys.readouterr().out
    assert run(report_on(layout, "--yes")) == 0
    assert Path(bugreport.FILE).exists()
    capsys.readouterr()
    assert run(report_on(layout, "--yes")) == 2
    assert "name another file with --write [SWARM-CONFIG]" in capsys.readouterr().err


def test_it_is_bounded_and_made_where_there_is_no_experiment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    layout = make_experiment(tmp_path)
    append_events(layout, "alice", *(make_event("e", 1.0 + n, note="x" * 5000) for n in range(200)))
    assert run(report_on(layout)) == 0
    assert len(capsys.readouterr().out) < 10 * bugreport.LONGEST_PART
    assert run(["bugreport", "--no-doctor", "--path", str(tmp_path), "--experiment", "nowhere"]) == 0
    said = capsys.readouterr().out
    assert said.rstrip().split("\n")[-2].endswith(": there is exp")
    assert "\n## versions\n" in said


def test_a_part_that_fails_says_so_and_the_others_are_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ValueError("odd")

    monkeypatch.setattr(bugreport, "machine", fail)
    assert run(report_on(make_experiment(tmp_path))) == 0
    said = capsys.readouterr().out
    assert "## machine\n\nfailed: ValueError: odd" in said
    assert "\n## events\n" in said


def test_long_lines_of_many_nodes_are_not_held_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Twenty lines of nearly a megabyte by each of four nodes."""
    layout = make_experiment(tmp_path)
    long = "x y " * 225_000
    for node in range(4):
        append_events(layout, f"m{node}", *[make_event("m.long", 9.0, level="error", note=long)] * 20)
        print_to(layout, f"m{node}", "\n".join([long] * 20))
    tracemalloc.start()
    assert run(report_on(layout)) == 0
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 48 * 2**20
    said = capsys.readouterr().out
    assert len(said) < 200_000
    assert "left_out='9000" in said
