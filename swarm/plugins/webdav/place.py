"""A shared place in a folder of a WebDAV server (RFC 4918), asked by httpx.

    DavPlace ─▶ DavStore, a BucketStore ─▶ DavObjects: ten verbs over whole objects ─▶ httpx ─▶ server

Each promise of swarm.store.base rests on something that servers with ordinary folders do alike:

    atomic      PUT to a draft in `.tmp`, then MOVE to the key: some servers write a PUT in place, and none a MOVE.
                To replace, the former version first moves to KEY~was: RFC 4918 has a server delete what a MOVE
                overwrites, so readers would find nothing in between. Who misses KEY looks for KEY~was, then once more.
    durable     The server's answer to the MOVE. Whether it outlives the server's own power cut is the server's affair.
    exclusive   MKCOL KEY~claim, which fails with 405 where another one's is (RFC 4918, 9.3.1), then MOVE with
                `Overwrite: F`. Not `If-None-Match: *`: some servers ignore it, and Apache looks first and writes later.
                A MOVE whose answer was lost is known by its draft, which is gone.
    own order   One request after the other.
    growing     Segments, as in a bucket: WebDAV knows no append. The Range of a GET reads what is new.
    bounded     Content-Length before the body, and the bytes that came. A GET of a folder is a redirect, or refused.
    own way     A folder at a key is deleted, before the draft moves there.
    listing     PROPFIND with Depth 1. What lies below one name, or holds a `~`, is as in swarm.store.bucket.
    bundles     As in a bucket: data under a random id, and a manifest, put last. A prefix that goes moves to `.tmp`.

Tags are the server's ETags. What failed for a moment (429, 423, 5xx, a cut connection) is tried again, with jitter.

Credentials come from WEBDAV_USER and WEBDAV_PASSWORD, or WEBDAV_TOKEN, or ~/.netrc, and go to the server alone: they
stand in no URL, and no redirect is followed.
"""

from __future__ import annotations

import hashlib
import logging
import os
import random
import re
import ssl
import time
import uuid
import weakref
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from netrc import NetrcParseError
from pathlib import Path
from typing import NamedTuple, TypeVar
from urllib.parse import quote, unquote
from xml.etree import ElementTree

import httpx

from swarm.errors import AlreadyThereError, ProtocolError, StoreError
from swarm.store.base import MOST_NAMES, PAGE, Entry, Kind, Page, Spent, Store, page_of
from swarm.store.bucket import growing
from swarm.store.bucket.health import bucket_health
from swarm.store.bucket.listing import BEHIND, MANIFEST, bundle_of, holds_bundles, is_odd
from swarm.store.bucket.objects import PAUSES, PIECE, Got, ObjectMeta, Upload, say_that_it_went, tag_of
from swarm.store.bucket.store import BucketStore
from swarm.store.health import Health
from swarm.store.place import EXPERIMENTS, Place
from swarm.wire import keys

T = TypeVar("T")
MOST_LISTED = 128 * 2**20
"""Bytes of one PROPFIND's answer; a name has some 400."""
_SILENCE, _CONNECT = 30.0, 5.0
"""Seconds after which a server that says nothing gives no answer."""
_WAS, _CLAIM = "~was", "~claim"
_FIXED = re.compile(r"~[^/]*/")
"""In names of segments and of data of bundles, which are written once."""
_ATTEMPTS = 5
_PROPERTIES = (
    b'<?xml version="1.0"?><propfind xmlns="DAV:"><prop><resourcetype/><getcontentlength/><getetag/>'
    b"<getlastmodified/></prop></propfind>"
)


class Answer(NamedTuple):
    """An answer that the asker knows what to make of."""

    status: int
    body: object = None
    tried: int = 0
    """Requests before it whose answers did not come, or were passing failures."""


class Child(NamedTuple):
    """One name in a folder of the server."""

    name: str
    is_folder: bool
    meta: ObjectMeta


class DavObjects:
    """One handle's way to the server; it implements swarm.store.bucket.objects.Objects."""

    def __init__(
        self,
        http: httpx.Client,
        address: str,
        drafts: str,
        writer: str = "",
        *,
        pause: Callable[[float], object] = time.sleep,
        chance: Callable[[], float] = random.random,
    ) -> None:
        """Asks nothing yet.

        Args:
            address: URL of the place's folder; names are below it.
            drafts: where what is half-written lies.
            writer: whose drafts these are.
            pause: waits for some seconds before a further try.
            chance: a random number below 1.
        """
        self._http, self._address, self._drafts, self._writer = http, address, drafts, writer
        self._pause, self._chance = pause, chance
        self._replaced: set[str] = set()
        """Names that this handle found something at: there a draft takes the long way at once."""
        self.spent = Spent()

    def describe(self, name: str) -> str:
        return f"{self._address}/{name}" if name else self._address

    # ── writing ─────────────────────────────────────────────────────────────────────────────────────────────────────
    def put(self, name: str, data: bytes) -> None:
        """Write an object in the place of what is there, which can be read until then."""
        draft = self._draft(data)
        for _ in range(_ATTEMPTS):
            if name not in self._replaced:
                if self._move(draft, name):
                    return
                self.clear(name, of_files=False)
                self._replaced.add(name)
            self._move(name, f"{name}{_WAS}", overwrite=True)
            if self._move(draft, name):
                return
        raise StoreError(f"cannot write {self.describe(name)}: somebody else writes it; give each writer its own id")

    def create(self, name: str, data: bytes, *, trusting: bool = False) -> None:
        """Write an object where there is none; it implements Objects.create."""
        draft, claimed = self._draft(data), not (trusting or _FIXED.search(name))  # of segments there is one writer
        try:
            if claimed:
                self._claim(name)
            if not self._move(draft, name):
                raise AlreadyThereError(f"{self.describe(name)} is there already")
        except BaseException:
            with suppress(StoreError):
                self._ask("delete", "remove", "DELETE", draft, (404,))
            raise
        finally:
            if claimed:
                self._ask("delete", "remove", "DELETE", f"{name}{_CLAIM}/", (404,))

    def _claim(self, name: str) -> None:
        """Returns who is to be first, or whose predecessor died at it. Raises AlreadyThereError: another one was."""
        for pause in PAUSES:
            if self._make(f"{name}{_CLAIM}"):
                return
            self._pause(pause * self._chance())
            if self.head(name):
                raise AlreadyThereError(f"{self.describe(name)} is there already")

    def _draft(self, data: bytes) -> str:
        name = f"{self._drafts}/{self._writer}~{uuid.uuid4().hex}"
        self.spent.sent += len(data)
        self._write(name, "PUT", content=lambda: data)
        return name

    def upload(self, name: str, file: Path) -> Upload:
        self.spent.sent += (size := file.stat().st_size)
        with open(file, "rb") as data:

            def from_the_beginning() -> Iterator[bytes]:
                data.seek(0)
                return iter(lambda: data.read(PIECE), b"")

            self._write(name, "PUT", content=from_the_beginning, headers={"Content-Length": str(size)})
            data.seek(0)
            return Upload(size, hashlib.file_digest(data, "sha256").hexdigest())

    def _move(self, source: str, target: str, *, overwrite: bool = False) -> bool:
        """Tells whether it went there, or an earlier try did it; False: something is there."""
        headers = {"Destination": self._url(target), "Overwrite": "T" if overwrite else "F"}
        answer = self._write(source, "MOVE", target, headers=headers, taken=(404, 412))
        if answer.status == 404 and not answer.tried and not overwrite:
            raise StoreError(f"cannot write {self.describe(target)}: its draft is gone; is its writer's id used twice?")
        return answer.status != 412

    def _write(
        self,
        name: str,
        method: str,
        target: str = "",
        *,
        content: Callable[[], bytes | Iterator[bytes]] | None = None,
        headers: Mapping[str, str] = {},
        taken: Collection[int] = (),
    ) -> Answer:
        """Sends something to a folder, which is made where it is missing: a server says 409 then, a few 404."""
        missing = (409,) if method == "MOVE" else (404, 409)
        answer = self._ask("put", "write", method, name, (*taken, *missing), content=content, headers=headers)
        if answer.status not in missing:
            return answer
        self._make((target or name).rpartition("/")[0])
        return self._ask("put", "write", method, name, taken, content=content, headers=headers)

    def _make(self, folder: str) -> bool:
        """Tells whether a folder was made, with those above it; False: something is there.

        Raises:
            StoreError: the place itself is not there, or what is above is no folder.
        """
        answer = self._ask("put", "make", "MKCOL", f"{folder}/", (405, 409)) if folder else Answer(409)
        if answer.status == 409 and "/" in folder:
            self._make(folder.rpartition("/")[0])
            answer = self._ask("put", "make", "MKCOL", f"{folder}/", (405, 409))
        if answer.status == 409 and not self.look(""):
            raise StoreError(f"cannot write {self.describe(folder)}: {no_folder(self._address)}")
        if answer.status == 409:
            raise StoreError(f"cannot write {self.describe(folder)}: no folder is above it", blocked=True)
        return answer.status != 405

    def clear(self, name: str, *, of_files: bool) -> None:
        """Remove the file, or the folder, that stands where its writer writes the other."""
        if (found := self.look(name)) and found.is_folder is not of_files:
            say_that_it_went(self.describe(name))
            self.delete([f"{name}/" if found.is_folder else name])

    def delete(self, names: Sequence[str]) -> None:
        """Remove objects, and no folders; segments and data of bundles go with the folder that they alone lie in."""
        whole = {name[: found.end()] if (found := _FIXED.search(name)) else name for name in names}
        for name in sorted(whole):
            if not name.endswith("/"):  # the former version first, or it would be found again
                if (found := self.look(name)) and found.is_folder:
                    continue  # which is no object, and DELETE would take all below it
                self._ask("delete", "remove", "DELETE", f"{name}{_WAS}", (404,))
            self._ask("delete", "remove", "DELETE", name, (404,))

    def delete_folder(self, folder: str) -> None:
        """Remove all below a prefix: out of sight at once, unless it is the whole experiment."""
        aside = f"{self._drafts}/{self._writer}~{uuid.uuid4().hex}"
        if not self._drafts.startswith(f"{folder}/"):
            headers = {"Destination": f"{self._url(aside)}/", "Overwrite": "F"}
            if self._write(f"{folder}/", "MOVE", aside, headers=headers, taken=(404,)).status == 404:
                return
            folder = aside
        self._ask("delete", "remove", "DELETE", f"{folder}/", (404,))

    def recover(self) -> None:
        """Remove the drafts of a former life of this writer."""
        left = [child.name for child in self.children(self._drafts) if child.name.startswith(f"{self._writer}~")]
        for name in left:
            self._ask("delete", "remove", "DELETE", f"{self._drafts}/{name}", (404,))

    # ── reading ─────────────────────────────────────────────────────────────────────────────────────────────────────
    def get(self, name: str, limit: int) -> Got:
        def read(answer: httpx.Response) -> Got:
            return Got(b"".join(self._pieces(answer, name, limit)), tag_of(_meta(name, answer.headers)))

        got = self._get(name, read)
        self.spent.received += len(got.data)
        return got

    def get_range(self, name: str, start: int, end: int) -> bytes:
        def read(answer: httpx.Response) -> bytes:
            if answer.status_code == 206:
                return b"".join(self._pieces(answer, name, end - start))
            found = bytearray()  # a server that ignores Range gives all
            for piece in answer.iter_raw():
                found += piece
                if len(found) >= end:
                    break
            return bytes(found[start:end])

        data = self._get(name, read, {"Range": f"bytes={start}-{end - 1}"}) if start < end else b""
        self.spent.received += len(data)
        return data

    def download(self, name: str, target: Path, limit: int) -> Upload:
        def read(answer: httpx.Response) -> Upload:
            digest, size = hashlib.sha256(), 0
            with open(target, "wb") as file:
                for piece in self._pieces(answer, name, limit):
                    digest.update(piece)
                    size += file.write(piece)
            return Upload(size, digest.hexdigest())

        try:
            found = self._get(name, read)
        except BaseException:
            target.unlink(missing_ok=True)
            raise
        self.spent.received += found.size
        return found

    def _get(self, name: str, read: Callable[[httpx.Response], T], headers: Mapping[str, str] = {}) -> T:
        """Reads a name, or its former version while it is replaced."""
        folder = (300, 301, 302, 307, 308, 405)
        for path in self._ways(name):
            answer = self._ask("get", "read", "GET", path, (403, 404, 416, *folder), read=read, headers=headers)
            if answer.status in (200, 206):
                return answer.body  # type: ignore[return-value]
            if answer.status == 416:
                raise ProtocolError("unreadable", f"{self.describe(path)} is shorter than it was")
            if answer.status != 404:
                found = self.look(name)  # raises what is the server's, and no single file's
                reason = "not_a_file" if found and found.is_folder else "unreadable"
                raise ProtocolError(reason, f"{self.describe(path)}: the server answered {answer.status}")
        raise FileNotFoundError(self.describe(name))

    @staticmethod
    def _ways(name: str) -> Sequence[str]:
        return (name,) if _FIXED.search(name) else (name, f"{name}{_WAS}", name)

    def _pieces(self, answer: httpx.Response, name: str, limit: int) -> Iterator[bytes]:
        size, came = int(answer.headers.get("Content-Length", 0)), 0
        for piece in answer.iter_raw(PIECE) if size <= limit else ():
            if (came := came + len(piece)) > limit:
                break
            yield piece
        if max(size, came) > limit:
            said = f"{self.describe(name)} has {max(size, came)} bytes or more, the limit is {limit}"
            raise ProtocolError("oversized", said)

    def head(self, name: str) -> ObjectMeta | None:
        found = next((found for path in self._ways(name) if (found := self.look(path))), None)
        return {**found.meta, "path": name} if found and not found.is_folder else None

    def look(self, name: str) -> Child | None:
        """Returns what stands at a name itself; None: nothing."""
        return next(iter(self._propfind("head", name, "0")), None)

    def children(self, folder: str) -> list[Child]:
        """Returns the names in a folder, in order; none if it is not there. Those that are no text are left out."""
        found = self._propfind("list", f"{folder}/" if folder else "", "1")
        own = min((child.meta["path"].count("/") for child in found), default=0)
        below = (child for child in found if child.meta["path"].count("/") > own)
        return sorted(below, key=lambda child: child.name)

    def _propfind(self, kind: str, name: str, depth: str) -> list[Child]:
        headers = {"Depth": depth, "Content-Type": "application/xml"}

        def read(answer: httpx.Response) -> list[Child]:
            data = bytearray()
            for piece in answer.iter_raw():
                data += piece
                if len(data) > MOST_LISTED:
                    raise StoreError(f"cannot list {self.describe(name)}: more than {MOST_LISTED} bytes of names")
            return _children(bytes(data))

        answer = self._ask(
            kind, "look at", "PROPFIND", name, (404,), read=read, content=lambda: _PROPERTIES, headers=headers
        )
        return answer.body if isinstance(answer.body, list) else []

    def pages(self, prefix: str, after: str) -> Iterator[Sequence[ObjectMeta]]:
        """Yields all objects below a prefix: folder by folder, each step some requests, the first ones few."""
        page, size = list[ObjectMeta](), 1
        for meta in self._below(prefix, after):
            page.append(meta)
            if len(page) >= size:
                yield page
                page, size = [], min(PAGE, 10 * size)
        yield page

    def _below(self, prefix: str, after: str) -> Iterator[ObjectMeta]:
        there = self.children(prefix)
        for child in sorted(there, key=lambda child: f"{child.name}/" if child.is_folder else child.name):
            path = f"{prefix}/{child.name}" if prefix else child.name
            if child.is_folder and f"{path}/{BEHIND}" > after:
                yield from self._below(path, after)
            elif not child.is_folder and path > after:
                yield {**child.meta, "path": path}

    # ── trying ──────────────────────────────────────────────────────────────────────────────────────────────────────
    def _url(self, name: str) -> str:
        return f"{self._address}/{quote(name, safe='/~')}"

    def _ask(
        self,
        kind: str,
        verb: str,
        method: str,
        name: str,
        taken: Collection[int],
        *,
        read: Callable[[httpx.Response], object] = httpx.Response.read,
        content: Callable[[], bytes | Iterator[bytes]] | None = None,
        headers: Mapping[str, str] = {},
    ) -> Answer:
        """Sends a request until it is answered.

        Args:
            taken: statuses that the caller understands, beside success.
            read: takes in the body of a success.
            content: gives the body, once for each try.

        Raises:
            StoreError: no such answer came; says why, and what to do.
        """
        for tried, pause in enumerate((*PAUSES, None)):
            self.spent.requests[kind] += 1
            try:
                sent = content() if content else None
                with self._http.stream(method, self._url(name), content=sent, headers=dict(headers)) as answer:
                    if answer.is_success:
                        return Answer(answer.status_code, read(answer), tried)
                    if answer.status_code in taken:
                        return Answer(answer.status_code, None, tried)
                    said, advice, passing = trouble_of(answer, self._address)
            except (httpx.RequestError, ElementTree.ParseError) as error:
                said, advice, passing = broken_by(error)
            if pause is None or not passing:
                raise StoreError(f"cannot {verb} {self.describe(name)}: {said}; {advice}")
            self._pause(pause * self._chance())
        raise AssertionError("unreachable")


def _meta(name: str, headers: Mapping[str, str]) -> ObjectMeta:
    modified = datetime.fromtimestamp(0, UTC)
    with suppress(ValueError):
        modified = parsedate_to_datetime(headers.get("Last-Modified") or "")
    length = headers.get("Content-Length") or ""
    size = int(length) if length.isdecimal() else 0
    return {"path": name, "size": size, "e_tag": headers.get("ETag"), "last_modified": modified}


def _children(multistatus: bytes) -> list[Child]:
    """Returns what an answer to PROPFIND names; `path` of each is what the server says, without slashes at its ends."""
    found = []
    for response in ElementTree.fromstring(multistatus).iterfind("{DAV:}response"):
        with suppress(UnicodeDecodeError):  # no name of ours
            path = unquote(response.findtext("{DAV:}href") or "", errors="strict").strip("/")
            said = {
                each.tag.removeprefix("{DAV:}"): each
                for each in response.iterfind("{DAV:}propstat/{DAV:}prop/*")
                if each.text or len(each)
            }
            headers = {"Content-Length": "getcontentlength", "ETag": "getetag", "Last-Modified": "getlastmodified"}
            meta = _meta(path, {ours: said[theirs].text or "" for ours, theirs in headers.items() if theirs in said})
            found.append(Child(path.rpartition("/")[2], "resourcetype" in said, meta))
    return found


# ── what an error means ──────────────────────────────────────────────────────────────────────────────────────────────
_CREDENTIALS = "set WEBDAV_USER and WEBDAV_PASSWORD (or WEBDAV_TOKEN), or give ~/.netrc an entry for the host"
_ADVICE = {
    401: f"{_CREDENTIALS}; Nextcloud and ownCloud make an app password under Settings, Security",
    403: "have the folder shared with this user, with the right to edit, create and delete",
    405: "see that the URL is that of WebDAV: of a Nextcloud https://HOST/remote.php/dav/files/USER/FOLDER",
    413: "the server takes no file of this size: have its limit raised",
    507: "the storage is full: free space there, its trash and old versions too",
}
_ADVICE |= {501: _ADVICE[405], 400: _ADVICE[405]}
_PASSING = (408, 423, 425, 429, 500, 502, 503, 504)


def no_folder(address: str) -> str:
    """Returns what to say where the folder of the place is not there."""
    return f"there is no folder {address}; make it on the server first, or correct the URL"


def trouble_of(answer: httpx.Response, address: str) -> tuple[str, str, bool]:
    """Returns what an answer says that nobody expected, the advice for people, and whether trying again may help."""
    status = answer.status_code
    if status in (404, 409):
        return f"the server answered {status}", no_folder(address), False
    if answer.is_redirect:
        return f"the server answered {status}, it moved", "name the address that a browser ends at", False
    otherwise = "the server is overloaded or out of order: try again later"
    return f"the server answered {status}", _ADVICE.get(status, otherwise), status in _PASSING


def broken_by(error: BaseException) -> tuple[str, str, bool]:
    """Returns the same of a request that was not answered, or not in words of WebDAV."""
    if isinstance(error, ElementTree.ParseError):
        return "the server's answer is not WebDAV's", _ADVICE[405], False
    cause: BaseException | None = error
    while cause and not isinstance(cause, ssl.SSLError):
        cause = cause.__cause__ or cause.__context__
    if isinstance(cause, ssl.SSLCertVerificationError):
        advice = "have whoever runs the server renew it; name the file of an authority of your own in SSL_CERT_FILE"
        return f"the server's certificate is not valid: {cause.verify_message}", advice, False
    if isinstance(cause, ssl.SSLError) or isinstance(error, httpx.UnsupportedProtocol):
        return "there is no TLS at this address", "see whether the URL begins with https:// or http://", False
    if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout):
        return "the server cannot be reached", "see that it runs, that its name is right, and that you are online", True
    return "the connection broke off, or the server says nothing", "see that the server can be reached", True


# ── the store and the place ──────────────────────────────────────────────────────────────────────────────────────────
class DavStore(BucketStore):
    """One handle of an experiment: a bucket's store, which lists and removes by folders."""

    def __init__(self, objects: DavObjects, root: str, writer: str | None) -> None:
        super().__init__(objects, root, "webdav", writer)
        self._objects = objects

    def list(self, prefix: str, *, after: str = "", limit: int = PAGE, tags: bool = False) -> Page:
        if bundle_of(prefix):
            return super().list(prefix, after=after, limit=limit, tags=tags)
        there = [child for child in self._objects.children(self._name(prefix)) if not is_odd(child.name)]
        found = [entry for child in there if (entry := self._entry(prefix, child, tags))]
        names = {entry.name for entry in found}
        for child in there:  # a former version, while it is replaced
            name = child.name.removesuffix(_WAS)
            if child.name != name and "~" not in name and not child.is_folder and name not in names:
                found.append(Entry(name, Kind.FILE, *_tagged(child, tags)))
        return page_of(sorted(found), after, limit)

    def _entry(self, prefix: str, child: Child, tags: bool) -> Entry | None:
        """Returns what a name of the server shows; None: nothing."""
        key = f"{prefix}/{child.name}" if prefix else child.name
        if "~" not in child.name and not child.is_folder:
            return Entry(child.name, Kind.FILE, *_tagged(child, tags))
        if "~" not in child.name:
            shown = key != keys.DRAFTS and (
                not holds_bundles(prefix) or self._objects.head(f"{self._name(key)}/{MANIFEST}")
            )
            return Entry(child.name, Kind.PREFIX) if shown else None
        name = child.name.removesuffix("~")
        if not child.is_folder or not name or "~" in name:
            return None
        if not tags:
            return Entry(name, Kind.FILE)
        segments = growing.segments_of(self._objects, self._name(key.removesuffix("~")))
        return (
            Entry(name, Kind.FILE, segments[-1].end, f"{segments[-1].birth}-{segments[-1].end}") if segments else None
        )

    def put_bundle(self, prefix: str, fill: Callable[[Path], None]) -> None:
        self._objects.clear(self._writing(prefix), of_files=True)
        super().put_bundle(prefix, fill)

    def remove_prefix(self, prefix: str) -> None:
        self._check_writer()
        self._objects.delete_folder(self._name(prefix))

    def recover(self) -> None:
        super().recover()
        self._objects.recover()


def _tagged(child: Child, tags: bool) -> tuple[int, str]:
    return (child.meta["size"], tag_of(child.meta)) if tags else (0, "")


class DavPlace(Place):
    """A folder of a WebDAV server."""

    KIND = "a folder of a WebDAV server"

    def __init__(self, url: str, http: httpx.Client) -> None:
        self._url, self._http = url, http
        weakref.finalize(self, http.close)

    def describe(self) -> str:
        return self._url

    def problem(self) -> str:
        try:
            found = self._objects("").look("")
        except StoreError as error:
            return str(error)
        return "" if found and found.is_folder else no_folder(self._url)

    def experiments(self) -> list[str]:
        if problem := self.problem():
            raise StoreError(problem)
        there = self.beside(EXPERIMENTS).list("", limit=MOST_NAMES).entries
        return [entry.name for entry in there if entry.kind is Kind.PREFIX]

    def has(self, name: str) -> bool:
        return bool(self.store(name, None).list("", limit=1).entries)

    def remove(self, name: str) -> None:
        self.beside(keys.archive(name), "@remove").remove_prefix("")
        self.store(name, "@remove").remove_prefix("")

    def beside(self, folder: str, writer: str | None = None) -> Store:
        return DavStore(self._objects(folder, writer or ""), folder, writer)

    def store(self, name: str, writer: str | None) -> DavStore:
        return DavStore(self._objects(folder := f"{EXPERIMENTS}/{name}", writer or ""), folder, writer)

    def _objects(self, folder: str, writer: str = "") -> DavObjects:
        return DavObjects(self._http, self._url, "/".join(filter(None, (folder, keys.DRAFTS))), writer)

    @contextmanager
    def health(self, name: str) -> Iterator[Health]:
        objects = self._objects("", "doctor")
        with bucket_health(objects, "", f"{EXPERIMENTS}/{name}") as health:
            try:
                yield health
            finally:
                with suppress(StoreError):
                    objects.delete([f"{health.tried[0].rpartition('/')[0]}/", f"{keys.DRAFTS}/"])


def open_place(url: str, environ: Mapping[str, str] = os.environ) -> Place:
    """Returns the folder of a WebDAV server as a place, and asks nothing of it yet; the entry point's contract.

    Raises:
        StoreError: ~/.netrc cannot be read.
    """
    for name in ("httpx", "httpcore"):
        logging.getLogger(name).setLevel(logging.WARNING)
    return DavPlace(url, client(environ))


def client(environ: Mapping[str, str] = os.environ, transport: httpx.BaseTransport | None = None) -> httpx.Client:
    """Returns what asks servers, with this user's credentials."""
    headers, auth = {"Accept-Encoding": "identity", "User-Agent": "swarm"}, httpx.Auth()
    netrc = Path(environ.get("NETRC") or "~/.netrc").expanduser()
    try:
        if user := environ.get("WEBDAV_USER"):
            auth = httpx.BasicAuth(user, environ.get("WEBDAV_PASSWORD", ""))
        elif token := environ.get("WEBDAV_TOKEN"):
            headers["Authorization"] = f"Bearer {token}"
        elif netrc.is_file():
            auth = httpx.NetRCAuth(str(netrc))
    except (OSError, NetrcParseError, UnicodeDecodeError) as error:
        raise StoreError(f"cannot read {netrc}: {type(error).__name__}; correct it, or {_CREDENTIALS}") from None
    timeout, limits = httpx.Timeout(_SILENCE, connect=_CONNECT), httpx.Limits(keepalive_expiry=60.0)
    return httpx.Client(auth=auth, headers=headers, timeout=timeout, limits=limits, transport=transport)
