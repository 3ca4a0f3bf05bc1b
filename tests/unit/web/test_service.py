"""The page's service, asked as a browser asks it, and as others might."""

from __future__ import annotations

import json
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

pytest.importorskip("starlette")
pytest.importorskip("httpx")

from starlette.testclient import TestClient

from benchmarks.made_place import start_of
from swarm.config import Settings
from swarm.errors import StoreError
from swarm.records import history as histories
from swarm.types import RoundKey
from swarm.web import journal as journals
from swarm.web import series
from swarm.web import service as services
from swarm.web.guard import HEADERS
from swarm.web.journal import Journal, wanted
from swarm.web.look import start_document
from swarm.web.service import DRAWN, Service, WatchedRun
from swarm.wire import keys
from tests.layout import Layout
from tests.unit.views.factories import ROUND_SECONDS, START, append, make_row, run_of
from tests.unit.web.web_factory import BASE, a_browser, a_look, a_service, make_shown

RUN = "/api/run/exp"
READ = ["/", "/api/place", *(f"{RUN}/{what}" for what in ("standing", "tasks", "matrix", "settings"))]
READ += [f"{RUN}/series?columns=my_reward", f"{RUN}/stages/0", f"{RUN}/answers/0/0/alice", "/static/main.js"]


@pytest.fixture(autouse=True)
def layout(tmp_path: Path) -> Layout:
    return make_shown(tmp_path)


def test_nobody_who_was_not_let_in_is_told_anything(tmp_path: Path) -> None:
    stranger = TestClient(a_service(tmp_path)[0].app, base_url=BASE)
    for path in (*READ, f"{RUN}/live", f"{RUN}/journal", "/static/none", "/nowhere", "/api"):
        answer = stranger.get(path)
        assert answer.status_code == 401, path
        assert "open the link" in answer.text
        assert "exp" not in answer.text, path


def test_the_token_becomes_a_cookie_that_no_script_sees_and_no_other_site_sends(tmp_path: Path) -> None:
    let_in = list[str]()
    service, guard = a_service(tmp_path, admitted=lambda: let_in.append(guard.token))
    first = guard.token
    answer = TestClient(service.app, base_url=BASE).get(f"/?token={first}")
    cookie = answer.headers["set-cookie"]
    assert all(flag in cookie for flag in ("HttpOnly", "SameSite=strict"))
    assert first not in cookie + answer.text
    assert let_in == [guard.token] != [first]


def test_every_answer_has_the_headers_that_bar_what_is_foreign(tmp_path: Path) -> None:
    for client in (a_browser(tmp_path), TestClient(a_service(tmp_path)[0].app, base_url=BASE)):
        for path in ("/", "/healthz", "/nowhere", f"{RUN}/standing", "/static/style.css"):
            answer = client.get(path)
            assert {name: answer.headers.get(name) for name in HEADERS} == HEADERS, path
    assert "unsafe" not in HEADERS["Content-Security-Policy"]
    assert "connect-src 'self'" in HEADERS["Content-Security-Policy"]


def test_what_is_not_there_is_not_found_and_what_makes_no_sense_is_refused(tmp_path: Path) -> None:
    browser = a_browser(tmp_path)
    names = ("/nowhere", "/static/..%2fservice.py", "/static/index.html", "/static/uPlot.LICENSE")
    others = ("/api/run/none/standing", "/api/run/..%2f..%2fetc/standing")
    of_run = ("answers/0/0/..%2fbob", "answers/0/0/nobody", "stages/x", "nothing", f"stages/{'9' * 5000}")
    for path in (*names, *others, *(f"{RUN}/{what}" for what in (*of_run, f"answers/0/{'9' * 5000}/alice"))):
        assert browser.get(path).status_code in (404, 503), path
    odd = ("series", "series?columns=node_id", "live?mark=[1]", "journal?level=loud", "journal?node=../x")
    assert {browser.get(f"{RUN}/{what}").status_code for what in odd} == {400}
    writing = browser.post("/api/place")
    assert (writing.status_code, writing.headers["allow"]) == (405, "GET, HEAD")


def events_of(lines: list[str]) -> list[dict[str, Any]]:
    return [json.loads(line.split("data: ", 1)[1]) for line in lines if "data: " in line]


def test_who_follows_is_told_where_the_run_stands_and_then_what_is_new(tmp_path: Path, layout: Layout) -> None:
    service, _ = a_service(tmp_path, interval=0.0)
    now = 0.0

    def clock() -> float:
        nonlocal now
        now += 1.0
        return now

    watched = WatchedRun(a_look(tmp_path), 0.5, clock, lambda: 1.7e9)

    async def follow() -> list[str]:
        lines = service._lives(watched, {})
        first = await anext(lines)
        append(layout.metrics_file("alice"), msgspec.json.encode(make_row(layout, "alice", 3)))
        second, third = await anext(lines), await anext(lines)
        await lines.aclose()  # type: ignore[attr-defined]
        return [first, second, third]

    first, second, third = events_of(anyio.run(follow))
    assert first["standing"]["experiment"] == "exp"
    assert {node: of["rounds"] for node, of in first["news"]["nodes"].items()} == {"alice": [0, 1, 2], "bob": [0, 1, 2]}
    assert {node: of["rounds"] for node, of in second["news"]["nodes"].items()} == {"alice": [3]}
    assert second["news"]["nodes"]["alice"]["columns"].keys() == {*DRAWN}
    assert "news" not in third


def test_a_stream_that_broke_goes_on_where_it_was(tmp_path: Path) -> None:
    mark = a_browser(tmp_path).get(f"{RUN}/series?columns=my_reward").json()["mark"]
    service, _ = a_service(tmp_path)
    watched = WatchedRun(a_look(tmp_path), 0.5, lambda: 0.0, lambda: 1.7e9)

    async def follow() -> str:
        return await anext(service._lives(watched, mark))

    assert "news" not in events_of([anyio.run(follow)])[0]


def test_a_run_is_read_once_per_interval_however_many_look(tmp_path: Path) -> None:
    look, now, read = a_look(tmp_path), [0.0], list[float]()
    refresh = look.refresh
    look.refresh = lambda wall: (read.append(wall), refresh(wall))[1]  # type: ignore[method-assign]
    watched = WatchedRun(look, 1.0, lambda: now[0], lambda: 1.7e9)

    async def ask() -> None:
        for _ in range(3):
            await watched.ask(lambda of: of.standing())
        now[0] = 1.5
        await watched.ask(lambda of: of.standing())

    anyio.run(ask)
    assert len(read) == 2


def test_rows_beyond_those_that_are_held_are_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(histories, "MOST_ROWS", 2)
    assert a_browser(tmp_path).get(f"{RUN}/standing").json()["not_held"] == {"alice": 1, "bob": 1}


def test_a_stream_counts_from_when_it_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(services, "MOST_STREAMS", 2)
    monkeypatch.setattr(Service, "_ended", lambda _: None)
    monkeypatch.setattr(Service, "_events", lambda *_: once())
    browser = a_browser(tmp_path)
    assert [browser.get(f"{RUN}/journal").status_code for _ in range(3)] == [200, 200, 503]


async def once() -> AsyncIterator[str]:
    yield "data: {}\n\n"


def test_invented_names_do_not_take_the_places_of_nodes_with_rows(
    tmp_path: Path, layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = layout.rollouts / "round_0" / "stage_0"
    for number in range(5):
        (folder / f"a{number}.json").write_text("x")
    monkeypatch.setattr(series, "MOST_NODES", 3)
    assert {"alice", "bob"} < {*a_browser(tmp_path).get(f"{RUN}/stages/0").json()["stages"]["0"]}


def test_a_node_with_rows_of_rounds_that_a_run_does_not_have_is_not_drawn(tmp_path: Path, layout: Layout) -> None:
    row = msgspec.structs.replace(make_row(layout, "mallory", 0), round=2**53 - 1)
    append(layout.metrics_file("mallory"), msgspec.json.encode(row))
    browser = a_browser(tmp_path)
    assert {*browser.get(f"{RUN}/series?columns=my_reward").json()["nodes"]} == {"alice", "bob"}
    assert browser.get(f"{RUN}/standing").json()["not_held"] == {"mallory": 1}


def test_of_a_start_no_more_is_told_than_an_honest_one_says() -> None:
    told = start_document({"node_id": "mallory", "versions": {f"package-{n}": "x" * 9999 for n in range(500)}})
    assert len(json.dumps(told)) < 50_000


def test_the_journal_has_the_last_events_that_match_and_then_what_comes(layout: Layout) -> None:
    run = run_of(layout)
    journal = Journal(run, wanted([], "info", "round.comp*"))
    assert [(event["node"], event["event"]) for event in journal.more()] == [("alice", "round.completed")]
    assert journal.is_whole
    assert journal.more() == []
    warnings = Journal(run, wanted(["bob"], "warning", "")).more()
    assert [event["words"] for event in warnings] == ["reason=false_claim"]


def test_a_journal_says_whether_it_began_with_all_events(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    run = run_of(layout)
    events = Journal(run, wanted([], "info", "*")).more()
    for most, whole in ((len(events), True), (len(events) - 1, False)):
        monkeypatch.setattr(journals, "LAST", most)
        monkeypatch.setattr(journals, "MOST_AT_ONCE", most)
        journal = Journal(run, wanted([], "info", "*"))
        assert len(journal.more()) == most
        assert journal.is_whole is whole


def test_what_has_elapsed_goes_from_the_first_rounds_start_to_the_last_row(tmp_path: Path, layout: Layout) -> None:
    look = a_look(tmp_path)
    look.refresh(START + 1e6)
    assert look.standing()["elapsed"] == pytest.approx(3 * ROUND_SECONDS)
    append(layout.metrics_file("bob"), msgspec.json.encode(make_row(layout, "bob", 3, timestamp=1e12)))
    look.refresh(START + 1e6)
    assert look.standing()["elapsed"] == pytest.approx(3 * ROUND_SECONDS), "a clock that nobody believes"


def test_stages_of_a_round_come_with_the_oldest_round_of_which_answers_are_kept(tmp_path: Path, layout: Layout) -> None:
    look = a_look(tmp_path)
    assert look.stages(2) == {"round": 2, "stages": {"0": ["alice", "bob"]}, "oldest": 0}
    shutil.rmtree(layout.rollouts / "round_0")
    for node in ("alice", "bob"):
        layout.rollout_file(RoundKey(1), node).unlink()
    assert look.stages(0) == {"round": 0, "stages": {}, "oldest": 2}, "an empty folder is none"
    shutil.rmtree(layout.rollouts)
    assert look.stages(0)["oldest"] is None


def test_settings_that_are_asked_for_first_are_told_even_at_their_defaults(tmp_path: Path, layout: Layout) -> None:
    append(layout.root / keys.starts("alice"), msgspec.json.encode(start_of("alice", "exp", START)))
    (told,) = a_look(tmp_path).made_with()["starts"]
    assert told["foremost"]["generations"] == "8"
    assert told["foremost"]["max_rounds"] == str(Settings().max_rounds)
    assert "max_rounds" not in told["settings"], "that are not at their defaults"
    assert "tasks" not in told["foremost"], "none is named"


def test_a_place_that_fails_for_a_while_is_told_to_who_follows_and_the_stream_goes_on(
    tmp_path: Path, layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = run_of(layout)
    service, _ = a_service(tmp_path, interval=0.0)
    watched, journal = (
        WatchedRun(a_look(tmp_path), 0.0, lambda: 0.0, lambda: 1.7e9),
        Journal(run, wanted([], "info", "*")),
    )

    def failing(*_: object) -> None:
        raise StoreError("the mount is gone")

    async def follow() -> list[str]:
        lives, events = service._lives(watched, {}), service._events(journal)
        with monkeypatch.context() as broken:
            broken.setattr(watched.look, "refresh", failing)
            broken.setattr(journal, "more", failing)
            lost = [await anext(lives), await anext(events)]
        return [*lost, await anext(lives), await anext(events)]

    told = events_of(anyio.run(follow))
    assert [said.get("problem") for said in told] == ["the mount is gone", "the mount is gone", None, None]
    assert told[2]["standing"]["experiment"] == "exp"
    assert told[3]["first"]
