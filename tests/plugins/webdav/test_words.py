"""A server that refuses, moved, is away, lies or is no WebDAV server is said in words, with what to do."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import httpx
import pytest

from swarm.config.place import place_of
from swarm.errors import AlreadyThereError, ConfigError, ProtocolError, StoreError
from swarm.plugins.webdav.place import MOST_LISTED, DavObjects, DavPlace, Http
from swarm.store.place import open_place

URL = "https://cloud.example/dav/swarm"
PASSWORD = "hunter2"
CREDENTIALS = {"WEBDAV_USER": "anna", "WEBDAV_PASSWORD": PASSWORD}
Handler = Callable[[httpx.Request], httpx.Response]
KEY = "peers/anna.json"


class Pieces(httpx.SyncByteStream):
    """A body that comes piece by piece, as a server sends it."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._pieces = pieces

    def __iter__(self) -> Iterator[bytes]:
        yield from self._pieces


def answer(status: int, *pieces: bytes, **headers: str) -> httpx.Response:
    return httpx.Response(status, stream=Pieces(pieces), headers=headers)


def objects(handler: Handler) -> DavObjects:
    http = Http(CREDENTIALS, httpx.MockTransport(handler))
    return DavObjects(http, URL, ".tmp/anna", pause=lambda most: None)


def multistatus(*names: str, kind: str = "", more: str = "") -> bytes:
    responses = "".join(
        f"<response><href>/dav/swarm{name}</href><propstat><prop><resourcetype>{kind}</resourcetype>{more}</prop>"
        "</propstat></response>"
        for name in names
    )
    return f'<multistatus xmlns="DAV:">{responses}</multistatus>'.encode()


def expired(request: httpx.Request) -> httpx.Response:
    cause = ssl.SSLCertVerificationError(1, "certificate verify failed")
    cause.verify_message = "certificate has expired"
    raise httpx.ConnectError("certificate verify failed") from cause


def away(request: httpx.Request) -> httpx.Response:
    raise httpx.ConnectError("connection refused")


def cut(request: httpx.Request) -> httpx.Response:
    raise httpx.RemoteProtocolError("server disconnected")


@pytest.mark.parametrize(
    ("handler", "remedy"),
    [
        (lambda request: answer(401), "WEBDAV_PASSWORD"),
        (lambda request: answer(403), "shared with"),
        (lambda request: answer(404), "make it"),
        (lambda request: answer(405), "remote.php/dav"),
        (lambda request: answer(301, Location="/login"), "login"),
        (lambda request: answer(200, b"<html>a page"), "remote.php/dav"),
        (lambda request: answer(207, b"<html>a page"), "remote.php/dav"),
        (lambda request: answer(207, multistatus("/")), "make it"),
        (expired, "SSL_CERT_FILE"),
        (away, "cannot be reached"),
        (cut, "breaks off"),
    ],
)
def test_what_is_wrong_is_said_with_the_place_the_remedy_and_no_password(
    handler: Handler, remedy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    place = DavPlace(URL, Http(CREDENTIALS, httpx.MockTransport(handler)))
    with pytest.raises(StoreError) as refused:
        place.experiments()
    for said in (place.problem(), str(refused.value)):
        assert URL in said
        assert remedy in said
        assert PASSWORD not in said


@pytest.mark.parametrize(
    ("handler", "remedy"),
    [
        (lambda request: answer(507), "free space"),
        (lambda request: answer(404 if request.method == "PROPFIND" else 409), "make it"),
        (lambda request: answer(404 if request.method in ("MOVE", "PROPFIND") else 201), "twice"),
    ],
    ids=["full", "folder gone", "draft gone"],
)
def test_what_keeps_a_place_from_being_written_is_said_at_the_first_write(handler: Handler, remedy: str) -> None:
    with pytest.raises(StoreError, match=remedy) as refused:
        objects(handler).put(KEY, b"{}")
    assert not refused.value.blocked


@pytest.mark.parametrize("status", [404, 412], ids=["looks for the draft first", "looks at the target first"])
def test_a_create_whose_answer_was_lost_is_known_by_its_draft(status: int) -> None:
    moved = []

    def lose_the_first_answer(request: httpx.Request) -> httpx.Response:
        if request.method == "MOVE":
            moved.append(request)
            if len(moved) == 1:
                raise httpx.ReadError("cut")
            return answer(status)
        if request.method == "PROPFIND":
            there = moved and "/.tmp/" not in request.url.path
            return answer(207, multistatus("/experiment.json")) if there else answer(404)
        return answer(201)

    objects(lose_the_first_answer).create("experiment.json", b"{}")
    assert len(moved) == 2


def test_who_died_while_he_was_first_hinders_nobody_and_who_was_first_does() -> None:
    def claimed(there: bool) -> Handler:
        def handle(request: httpx.Request) -> httpx.Response:
            if request.method == "PROPFIND":
                return answer(207, multistatus("/experiment.json")) if there else answer(404)
            return answer(405 if request.method == "MKCOL" else 201)

        return handle

    objects(claimed(there=False)).create("experiment.json", b"{}")
    with pytest.raises(AlreadyThereError):
        objects(claimed(there=True)).create("experiment.json", b"{}")


def test_what_passes_is_tried_again_and_a_server_that_ignores_ranges_gives_the_same_bytes() -> None:
    def half() -> Iterator[bytes]:
        yield b"01"
        raise httpx.RemoteProtocolError("peer closed connection")

    answers = iter([*map(answer, (503, 423, 429)), httpx.Response(200, stream=Pieces(half())), answer(200, b"0123")])
    assert objects(lambda request: next(answers)).get(KEY, 10).data == b"0123"
    assert objects(lambda request: answer(200, b"0123", b"456789")).get_range("logs/a", 2, 5) == b"234"


def flood(request: httpx.Request) -> httpx.Response:
    return httpx.Response(200, stream=Pieces(b"x" * 1000 for _ in range(1000)))


def closed(request: httpx.Request) -> httpx.Response:
    return answer(403) if request.method == "GET" else answer(207, multistatus(f"/{KEY}"))


def like_apache(request: httpx.Request) -> httpx.Response:
    """A folder whose name leads to itself with a slash."""
    if request.url.path.endswith("/"):
        return answer(207, multistatus("/peers/", kind="<collection/>"))
    return answer(301, Location=f"{request.url}/")


@pytest.mark.parametrize(
    ("handler", "key", "reason"),
    [
        (flood, KEY, "oversized"),
        (lambda request: answer(200, **{"Content-Length": "9" * 18}), KEY, "oversized"),
        (closed, KEY, "unreadable"),
        (like_apache, "peers", "not_a_file"),
    ],
)
def test_what_cannot_be_taken_is_a_bad_file_and_no_failure_of_the_place(
    handler: Handler, key: str, reason: str, tmp_path: Path
) -> None:
    for read in (lambda: objects(handler).get(key, 10), lambda: objects(handler).download(key, tmp_path / "copy", 10)):
        with pytest.raises(ProtocolError) as refused:
            read()
        assert refused.value.reason == reason
    assert not (tmp_path / "copy").exists()


BOMB = (
    b'<?xml version="1.0"?><!DOCTYPE m [<!ENTITY a "xxxxxxxxxx"><!ENTITY b "&a;&a;&a;&a;">]>'
    b'<multistatus xmlns="DAV:"><response><href>/dav/&b;</href></response></multistatus>'
)


@pytest.mark.parametrize(
    "data",
    [
        *(b"", b"<", BOMB, BOMB.decode().encode("utf-16"), b"\xff\xfe\x00" * 100, b"<a>" * 33 + b"</a>" * 33),
        b'<?xml version="1.0" encoding="no-such"?><multistatus/>',
        b'<multistatus xmlns="DAV:"><response>',
        b'<multistatus xmlns="DAV:"/>',
        b'<multistatus xmlns="DAV:"><response>' + b"<a>" * 2**20,
    ],
)
def test_a_listing_that_is_none_is_refused_with_the_remedy(data: bytes) -> None:
    with pytest.raises(StoreError, match="WebDAV"):
        objects(lambda request: answer(207, data)).children("peers")


@pytest.mark.parametrize(
    "more",
    [
        f"<getcontentlength>{'9' * 5000}</getcontentlength>",
        "<getcontentlength>-1</getcontentlength>",
        "<getlastmodified>Mon, 99 Foo 99999999999 00:00:00 GMT</getlastmodified>",
        "<getlastmodified></getlastmodified>",
    ],
)
def test_values_beyond_all_bounds_count_as_none(more: str) -> None:
    found = objects(lambda request: answer(207, multistatus(f"/{KEY}", more=more))).head(KEY)
    assert found
    assert found["size"] == 0


def test_a_listing_without_end_ends_at_its_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("swarm.plugins.webdav.place.MOST_NAMES", 20_000)
    taken = 0

    def flood(start: bytes, piece: bytes) -> Handler:
        def pieces() -> Iterator[bytes]:
            nonlocal taken
            yield start
            for _ in range(MOST_LISTED):
                taken += len(piece)
                yield piece

        return lambda request: httpx.Response(207, stream=Pieces(pieces()))

    several = b"".join(b"<response><href>/dav/swarm/peers/%d</href></response>" % n for n in range(10_000))
    folder = b'<multistatus xmlns="DAV:"><response><href>/dav/swarm/peers/</href></response>'
    assert len(objects(flood(folder, several)).children("peers")) == 20_000
    taken = 0
    assert objects(flood(folder + b"<response><href>", b"x" * 2**20)).children("peers") == []
    assert taken <= MOST_LISTED + 2**20


def test_names_that_lead_elsewhere_or_are_no_text_are_not_listed() -> None:
    names = ("/peers/", "/peers/anna.json", "/peers/%ff", "/peers/round_1/deep.json")
    for there, listed in ((multistatus(*names, "/"), ["peers"]), (multistatus(*names), ["anna.json"])):
        found = objects(lambda request, there=there: answer(207, there)).children("peers")
        assert [child.name for child in found] == listed


def test_folders_in_each_other_end(monkeypatch: pytest.MonkeyPatch) -> None:
    def endless(request: httpx.Request) -> httpx.Response:
        path = request.url.path.removeprefix("/dav/swarm").rstrip("/")
        return answer(207, multistatus(f"{path}/", f"{path}/a/", kind="<collection/>"))

    assert [*objects(endless).pages("experiments", "")] == []


def test_a_folder_whose_name_leads_to_itself_with_a_slash_is_one() -> None:
    found = objects(like_apache).look("peers")
    assert found
    assert found.is_folder


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_credentials_go_to_the_server_alone(status: int, tmp_path: Path) -> None:
    asked = []

    def redirect(request: httpx.Request) -> httpx.Response:
        asked.append(request.url.host)
        return answer(status, Location="https://elsewhere.example/")

    for attempt in (
        lambda: objects(redirect).children(""),
        lambda: objects(redirect).get(KEY, 10),
        lambda: objects(redirect).put(KEY, b""),
    ):
        with pytest.raises(StoreError):
            attempt()
    assert {*asked} == {"cloud.example"}


def test_cookies_of_a_server_are_not_kept() -> None:
    sent = []

    def give(request: httpx.Request) -> httpx.Response:
        sent.append(request.headers.get("Cookie"))
        return answer(200, b"{}", **{"Set-Cookie": "session=1"})

    reader = objects(give)
    assert [reader.get(KEY, 10).data for _ in range(2)] == [b"{}", b"{}"]
    assert sent == [None, None]


def test_credentials_come_from_the_environment_or_a_file_of_this_user(tmp_path: Path) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("machine cloud.example login ben password secret\n")

    def asked(environ: dict[str, str], url: str = URL) -> str:
        seen = []
        handler = httpx.MockTransport(
            lambda request: seen.append(request.headers.get("Authorization", "")) or answer(200)
        )
        Http({"NETRC": str(netrc)} | environ, handler).get(url)
        return seen[0]

    assert asked({"WEBDAV_TOKEN": "abc"}) == "Bearer abc"
    assert asked(CREDENTIALS) != asked({}) != ""
    assert asked({}, "https://elsewhere.example/") == ""
    netrc.write_text("nonsense")
    with pytest.raises(StoreError, match="netrc"):
        asked({})


@pytest.mark.parametrize("url", ["https://anna:hunter2@cloud.example/dav", f"{URL}?token=hunter2", f"{URL}#hunter2"])
def test_a_url_that_holds_a_secret_is_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(ConfigError) as refused:
        place_of(url)
    assert PASSWORD not in str(refused.value)


def test_every_process_has_one_name_for_the_place_and_what_is_no_url_is_refused() -> None:
    assert place_of(f" {URL}/ ") == URL
    for url in ("https://cloud.example:abc/dav", "https://cloud.example/\x01"):
        with pytest.raises(ConfigError, match="expected https://HOST/FOLDER"):
            open_place(place_of(url))
