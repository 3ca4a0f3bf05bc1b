"""`swarm top`: plain text where no terminal is, and the keys of the terminal's."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import anyio
import pytest

from swarm.cli.main import run
from swarm.harmless import printable_lines
from swarm.plugins.top import top
from swarm.plugins.top.reader import TopReader
from tests.layout import Layout
from tests.plugins.top.test_frame import WALL, make_live
from tests.unit.views.factories import run_of
from tests.unit.web.nasty import make_nasty

pytest.importorskip("textual")
from textual.pilot import Pilot
from textual.widgets import DataTable, Static

from swarm.plugins.top.app import TextPage, TopApp

Steps = Callable[[TopApp, Pilot[None]], Awaitable[None]]


def drive(layout: Layout, steps: Steps, size: tuple[int, int] = (140, 40)) -> None:
    async def play() -> None:
        app = TopApp(TopReader(run_of(layout), liveness_timeout=60.0), 1000.0, lambda: WALL)
        async with app.run_test(size=size) as pilot:
            await until(pilot, lambda: app.query_one("#nodes", DataTable).row_count > 0)
            await steps(app, pilot)

    anyio.run(play)


async def until(pilot: Pilot[None], there: Callable[[], bool]) -> None:
    with anyio.fail_after(60):
        while not there():
            await pilot.pause()


def said(app: TopApp, part: str) -> str:
    return str(app.screen_stack[0].query_one(part, Static).render())


def page(app: TopApp) -> str:
    return str(app.screen.query_one("#text", Static).render()) if isinstance(app.screen, TextPage) else ""


def test_a_frame_prints_nothing_that_a_terminal_obeys(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    make_nasty(tmp_path)
    assert run(["top", "--path", str(tmp_path), "--experiment", "exp"]) == 0
    said = "".join(capfd.readouterr())
    assert printable_lines(said) == said


def test_frames_follow_each_other_until_nobody_reads_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    make_live(tmp_path)
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(top.time, "sleep", pause)
    assert run(["top", "--watch", "5", "--path", str(tmp_path), "--experiment", "exp"]) == 130
    assert (capsys.readouterr().out.count("exp: "), pauses) == (2, [5.0, 5.0])


def test_a_terminal_gets_the_app_and_one_without_the_extra_is_told_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    make_live(tmp_path)
    for stream in (sys.stdin, sys.stdout):
        monkeypatch.setattr(stream, "isatty", lambda: True)
    opened: list[TopApp] = []
    monkeypatch.setattr(TopApp, "run", lambda app: opened.append(app))
    assert run(["top", "--path", str(tmp_path), "--experiment", "exp"]) == 0
    assert len(opened) == 1
    assert capsys.readouterr().out == "", "the app alone draws"
    monkeypatch.setitem(sys.modules, "swarm.plugins.top.app", None)
    assert run(["top", "--path", str(tmp_path), "--experiment", "exp"]) == 2
    assert '-m pip install "textual' in capsys.readouterr().err


def test_the_terminal_shows_what_the_text_says_and_marks_of_strangers_as_text(tmp_path: Path) -> None:
    async def steps(app: TopApp, _: Pilot[None]) -> None:
        nodes = app.query_one("#nodes", DataTable)
        assert [row.value for row in nodes.rows] == ["alice", "bob", "clock"]
        assert str(nodes.get_cell("bob", "seen")) == "9.0s (4 beats)"
        assert "round 3, stage 0" in said(app, "#head")
        assert "2 zero advantage" in said(app, "#notes")
        state = str(nodes.get_cell("bob", "state"))
        assert state.startswith("[red]x[/]"), "marks of strangers are text"
        assert "\x1b" not in state

    layout = make_live(tmp_path)
    peer = layout.peer_file("bob")
    peer.write_bytes(peer.read_bytes().replace(b'"training"', b'"[red]x[/]\\u001b[2J"'))
    drive(layout, steps)


def test_keys_open_the_chosen_node_its_answers_its_log_and_help_and_close_them(tmp_path: Path) -> None:
    async def steps(app: TopApp, pilot: Pilot[None]) -> None:
        await pilot.press("down")
        for key, words in (
            ("enter", "bob: worker"),
            ("n", "bob: worker"),
            ("r", "bob/2/0/0"),
            ("a", "alice/2/0/0"),
            ("l", "round.finished"),
            ("e", "coordinator.started"),
            ("question_mark", "choose a node"),
        ):
            await pilot.press(key)
            await until(pilot, lambda words=words: words in page(app))  # type: ignore[misc]
            await pilot.press("escape")
            await until(pilot, lambda: not isinstance(app.screen, TextPage))
        assert "alice" not in page(app)
        await pilot.press("q")
        await until(pilot, lambda: not app.is_running)

    drive(make_live(tmp_path), steps)


def test_a_new_round_changes_the_frame_and_keeps_the_chosen_node(tmp_path: Path) -> None:
    layout = make_live(tmp_path)

    async def steps(app: TopApp, pilot: Pilot[None]) -> None:
        from tests.unit.views.factories import make_peer, set_clock

        await pilot.press("down")
        set_clock(layout, 4, max_rounds=10, updated_at=WALL)
        make_peer(layout, "carl", status="active", last_seen=WALL, round=4)
        app.look()
        nodes = app.query_one("#nodes", DataTable)
        await until(pilot, lambda: nodes.row_count == 4)
        assert "round 4, stage 0" in said(app, "#head")
        assert nodes.cursor_row == 1

    drive(layout, steps)


def test_a_narrow_terminal_and_a_resized_one_show_the_run(tmp_path: Path) -> None:
    async def steps(app: TopApp, pilot: Pilot[None]) -> None:
        assert max(map(len, said(app, "#head").split("\n"))) <= 40
        narrow = said(app, "#head")
        await pilot.resize_terminal(120, 30)
        await until(pilot, lambda: len(said(app, "#head")) > len(narrow))
        await pilot.press("l")
        await until(pilot, lambda: "round.finished" in page(app))
        await pilot.resize_terminal(60, 10)
        assert app.is_running

    drive(make_live(tmp_path), steps, size=(40, 12))
