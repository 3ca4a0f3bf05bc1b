"""A server that refuses, moved, is away or is no WebDAV server is said in words, with what to do; no test waits."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from swarm.config.place import place_of
from swarm.errors import ConfigError, ProtocolError, StoreError
from swarm.plugins.webdav.place import DavObjects, DavPlace, client

URL = "https://cloud.example/dav/swarm"
PASSWORD = "hunter2"
Handler = Callable[[httpx.Request], httpx.Response]


def http(handler: Handler) -> httpx.Client:
    return client({"WEBDAV_USER": "anna", "WEBDAV_PASSWORD": PASSWORD}, httpx.MockTransport(handler))


def objects(handler: Handler) -> DavObjects:
    return DavObjects(http(handler), URL, ".tmp", "anna", pause=lambda seconds: None)


def expired(request: httpx.Request) -> httpx.Response:
    cause = ssl.SSLCertVerificationError(1, "certificate verify failed")
    cause.verify_message = "certificate has expired"
    raise httpx.ConnectError("certificate verify failed") from cause


def away(request: httpx.Request) -> httpx.Response:
    raise httpx.ConnectError("connection refused")


@pytest.mark.parametrize(
    ("handler", "remedy"),
    [
        (lambda request: httpx.Response(401), "WEBDAV_PASSWORD"),
        (lambda request: httpx.Response(403), "shared with"),
        (lambda request: httpx.Response(404), "make it"),
        (lambda request: httpx.Response(405), "remote.php/dav"),
        (lambda request: httpx.Response(301, headers={"Location": "/login"}), "browser"),
        (lambda request: httpx.Response(200, text="<html>a page"), "remote.php/dav"),
        (expired, "SSL_CERT_FILE"),
        (away, "online"),
    ],
)
def test_what_is_wrong_is_said_with_the_remedy_and_without_the_password(
    handler: Handler, remedy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    try:
        objects(handler).children("")
        said = DavPlace(URL, http(handler)).problem()
    except StoreError as error:
        said = str(error)
    assert remedy in said
    assert PASSWORD not in said


def test_a_full_storage_is_said_at_the_first_write() -> None:
    with pytest.raises(StoreError, match="free space"):
        objects(lambda request: httpx.Response(507)).put("peers/anna.json", b"{}")


def test_a_create_whose_answer_was_lost_is_known_by_its_draft() -> None:
    moved = []

    def lose_the_first_answer(request: httpx.Request) -> httpx.Response:
        if request.method == "MOVE":
            moved.append(request)
            if len(moved) == 1:
                raise httpx.ReadError("cut")
            return httpx.Response(404)
        return httpx.Response(201)

    objects(lose_the_first_answer).create("experiment.json", b"{}")
    assert len(moved) == 2


def test_a_passing_failure_is_tried_again() -> None:
    answers = iter([503, 423, 429, 200])
    got = objects(lambda request: httpx.Response(next(answers), content=b"{}")).get("peers/anna.json", 10)
    assert got.data == b"{}"


def test_a_server_that_ignores_ranges_gives_the_same_bytes() -> None:
    assert objects(lambda request: httpx.Response(200, content=b"0123456789")).get_range("logs/a", 2, 5) == b"234"


def test_no_more_is_taken_in_than_the_limit_whatever_the_server_claims(tmp_path: Path) -> None:
    def flood(request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, content=(b"x" * 1000 for _ in range(1000)))

    for read in (
        lambda: objects(flood).get("peers/anna.json", 10),
        lambda: objects(flood).download("peers/anna.json", tmp_path / "copy", 10),
    ):
        with pytest.raises(ProtocolError) as refused:
            read()
        assert refused.value.reason == "oversized"
    assert not (tmp_path / "copy").exists()


def test_a_file_that_nobody_may_read_is_no_failure_of_the_place() -> None:
    there = (
        b'<multistatus xmlns="DAV:"><response><href>/dav/swarm/peers/eve.json</href><propstat><prop>'
        b"<resourcetype/><getcontentlength>3</getcontentlength></prop></propstat></response></multistatus>"
    )

    def closed(request: httpx.Request) -> httpx.Response:
        return httpx.Response(403) if request.method == "GET" else httpx.Response(207, content=there)

    with pytest.raises(ProtocolError) as refused:
        objects(closed).get("peers/eve.json", 10)
    assert refused.value.reason == "unreadable"


def test_credentials_go_to_the_server_alone() -> None:
    asked = []

    def redirect(request: httpx.Request) -> httpx.Response:
        asked.append(request.url.host)
        return httpx.Response(302, headers={"Location": "https://elsewhere.example/"})

    with pytest.raises(StoreError):
        objects(redirect).children("")
    assert asked == ["cloud.example"]


@pytest.mark.parametrize("url", ["https://anna:hunter2@cloud.example/dav", f"{URL}?token=hunter2", f"{URL}#hunter2"])
def test_a_url_that_holds_a_secret_is_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(ConfigError) as refused:
        place_of(url)
    assert PASSWORD not in str(refused.value)


def test_every_process_has_one_name_for_the_place() -> None:
    assert place_of(f" {URL}/ ") == URL
