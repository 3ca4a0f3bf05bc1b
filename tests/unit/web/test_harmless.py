"""Nothing that a stranger may write reaches a browser as it is: by type, whatever the field."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

pytest.importorskip("starlette")
pytest.importorskip("httpx")

from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.applications import Starlette
from starlette.routing import Route

from swarm.harmless import printable_lines
from swarm.web.harmless import encoded
from swarm.web.journal import Journal, wanted
from swarm.web.service import WatchedRun
from tests.unit.web.nasty import MARKS, NODE, ROUND, WORD, dirtied, make_nasty, texts_of
from tests.unit.web.test_export import frozen, kept_in
from tests.unit.web.web_factory import a_browser, a_look, a_service
from tests.unit.wire.forms import FORMS

ASKED = {"name": "exp", "round": str(ROUND), "stage": "0", "node": NODE, "file": "main.js"}
STREAMS = ("/live", "/journal")


def paths(path: Path) -> list[str]:
    """Of all routes of the service, but for streams."""
    guarded: Any = a_service(path)[0].app
    app: Starlette = guarded._app
    routes = [route.path for route in app.routes if isinstance(route, Route)]
    return [route.format(**ASKED) for route in routes if not route.endswith(STREAMS)]


def unclean(text: str) -> bool:
    return printable_lines(text) != text


def test_every_form_that_a_peer_may_write_has_nasty_texts() -> None:
    without = {name for name, golden in FORMS.items() if WORD.encode() not in dirtied(type(golden), golden)}
    assert without <= {"reward.json", "archive.json", "judge_question.json"}, "these have names and digests alone"


def test_no_document_of_the_page_holds_an_unclean_text(tmp_path: Path) -> None:
    make_nasty(tmp_path)
    browser, told = a_browser(tmp_path), ""
    for path in paths(tmp_path):
        query = "?columns=my_reward" if path.endswith("/series") else ""
        answer = browser.get(f"{path}{query}")
        assert answer.status_code == 200, (path, answer.text)
        assert not unclean(answer.text), path
        if answer.headers["content-type"].startswith("application/json"):
            assert not any(map(unclean, texts_of(answer.json()))), path
            told += answer.text if WORD in answer.text else ""
    for field in ("model", "task", "question"):
        assert f'"{field}":"{WORD}' in told, "the test has something to find"


def test_no_stream_of_the_page_holds_an_unclean_text(tmp_path: Path) -> None:
    make_nasty(tmp_path)
    service, look = a_service(tmp_path)[0], a_look(tmp_path)

    async def first() -> list[str]:
        watched, journal = (
            WatchedRun(look, 0.0, lambda: 0.0, lambda: 1.7e9),
            Journal(look.run, wanted([], "debug", "*")),
        )
        return [await anext(service._lives(watched, {})), await anext(service._events(journal))]

    for said in anyio.run(first):
        assert WORD in said
        for line in said.splitlines():
            assert not unclean(line)
            if line.startswith("data: "):
                assert not any(map(unclean, texts_of(json.loads(line.removeprefix("data: ")))))


def test_the_exported_file_holds_no_unclean_text(tmp_path: Path) -> None:
    make_nasty(tmp_path)
    page = frozen(tmp_path)
    texts = [*texts_of(kept_in(page))]
    assert any(WORD in text for text in texts)
    assert not any(map(unclean, texts))
    assert not any(mark in page for mark in MARKS if mark not in "[31m")


ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(), lambda of: st.lists(of) | st.dictionaries(st.text(), of)
)


@given(ANY)
@settings(max_examples=30)
def test_what_is_encoded_is_the_document_with_its_texts_made_printable(document: Any) -> None:
    def cleaned(value: Any) -> Any:
        match value:
            case str():
                return printable_lines(value)
            case dict():
                return {printable_lines(name): cleaned(entry) for name, entry in value.items()}
            case list():
                return [*map(cleaned, value)]
        return value

    assert msgspec.json.decode(encoded(document).encode()) == cleaned(document)
