"""A shared place in a folder of a WebDAV server (RFC 4918), asked by httpx.

    DavPlace ─▶ DavStore, a BucketStore ─▶ DavObjects: the verbs of swarm.store.bucket.objects ─▶ httpx ─▶ server

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
    bounded     Content-Length before the body, and the bytes that came; an answer is never unpacked, its XML is read
                piece by piece, and refused where it declares entities. A GET of a folder is a redirect, or refused.
    own way     A folder at a key is deleted, before the draft moves there.
    listing     PROPFIND with Depth 1. What lies below one name, or holds a `~`, is as in swarm.store.bucket.
    bundles     As in a bucket: data under a random id, and a manifest, put last. A prefix that goes moves to `.tmp`.

Tags are the server's ETags. What failed for a moment (429, 423, 5xx, a cut connection) is tried again, with jitter.
Credentials come from WEBDAV_USER and WEBDAV_PASSWORD, or WEBDAV_TOKEN, or ~/.netrc, and go to the server alone: they
stand in no URL, and no redirect is followed.
"""

from __future__ import annotations

import hashlib
import io
import logging
import os
import random
import re
import ssl
import time
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http.cookiejar import DefaultCookiePolicy
from netrc import NetrcParseError
from pathlib import Path
from typing import BinaryIO, NamedTuple
from urllib.parse import quote, unquote
from xml.etree.ElementTree import ParseError, XMLParser

import httpx

from swarm.errors import AlreadyThereError, ConfigError, ProtocolError, StoreError
from swarm.store.base import MOST_NAMES, PAGE, Entry, Kind, Page, Spent, page_of
from swarm.store.bucket.growing import segments_of
from swarm.store.bucket.listing import BEHIND, MANIFEST, bundle_of, holds_bundles, is_odd
from swarm.store.bucket.objects import PAUSES, Got, ObjectMeta, Upload, say_that_it_went, tag_of
from swarm.store.bucket.place import ObjectsPlace
from swarm.store.bucket.store import BucketStore
from swarm.store.shared_place import Place
from swarm.wire import keys

MOST_LISTED, _MOST_TEXT, _DEEPEST = 32 * 2**20, 8192, 32
"""Bytes that are read of a folder's names, some 400 each; characters of one value there; folders, and elements of an
answer, in each other."""
_SILENCE, _CONNECT = 30.0, 5.0
"""Seconds after which a server that says nothing gives no answer."""
_WAS, _CLAIM = "~was", "~claim"
_ONCE = re.compile(r"~[^/]*/")
"""In names of segments and of data of bundles, which have one writer and are written once."""
_ATTEMPTS = 5
_LOOK, _LIST = ({"Depth": depth, "Content-Type": "application/xml"} for depth in "01")
_PROPERTIES = (
    b'<?xml version="1.0"?><propfind xmlns="DAV:"><prop><resourcetype/><getcontentlength/><getetag/>'
    b"<getlastmodified/></prop></propfind>"
)
_MOVED = (301, 302, 303, 307, 308)
_MISSING = {"PUT": (404, 409), "MOVE": (409,)}
"""Statuses that say that there is no folder to write to."""
_VERBS = {"PUT": "write", "MOVE": "write", "MKCOL": "make", "DELETE": "remove", "GET": "read", "PROPFIND": "look at"}
_COUNTED = {"PUT": "put", "MOVE": "put", "MKCOL": "put", "DELETE": "delete", "GET": "get", "PROPFIND": "list"}


class Child(NamedTuple):
    """One name in a folder of the server."""

    name: str
    is_folder: bool
    meta: ObjectMeta
    """Its `path` is what the server says, without slashes at its ends."""


class DavObjects:
    """One handle's way to the server; it implements swarm.store.bucket.objects.Objects."""

    def __init__(
        self, http: httpx.Client, address: str, drafts: str, pause: Callable[[float], object] | None = None
    ) -> None:
        """Asks nothing yet.

        Args:
            address: URL of the place's folder; names are below it.
            drafts: folder of what this writer has half-written.
            pause: waits before a further try, for at most some seconds.
        """
        self._http, self._address, self._drafts = http, address, drafts
        self._pause = pause or (lambda most: time.sleep(most * random.random()))
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
            if name in self._replaced:
                self._move(name, f"{name}{_WAS}", overwrite=True)
            if self._move(draft, name):
                return
            self.make_way(name, for_folder=False)
            self._replaced.add(name)
        raise StoreError(f"cannot write {self.describe(name)}: somebody else writes it; give each writer its own id")

    def create(self, name: str, data: bytes, *, trusting: bool = False) -> None:
        """Write an object where there is none; it implements Objects.create."""
        claim = "" if trusting or _ONCE.search(name) else f"{name}{_CLAIM}"
        for pause in PAUSES if claim else ():  # a claim that stays is of somebody who died at it
            if self._make(claim):
                break
            self._pause(pause)
            if self.head(name):
                raise AlreadyThereError(f"{self.describe(name)} is there already")
        try:
            draft = self._draft(data)
            if (claim and self.look(f"{name}{_WAS}")) or not self._move(draft, name):
                self._remove(draft)
                raise AlreadyThereError(f"{self.describe(name)} is there already")
        finally:
            if claim:
                self._remove(f"{claim}/")

    def _draft(self, data: bytes) -> str:
        name = f"{self._drafts}/{uuid.uuid4().hex}"
        self.spent.sent += len(data)
        self._ask("PUT", name, body=lambda: data)
        return name

    def upload(self, name: str, file: Path) -> Upload:
        with open(file, "rb") as data:
            digest = hashlib.file_digest(data, "sha256").hexdigest()
            self.spent.sent += (size := data.tell())

            def body() -> BinaryIO:
                data.seek(0)
                return data

            self._ask("PUT", name, body=body)
            return Upload(size, digest)

    def _move(self, source: str, target: str, *, overwrite: bool = False) -> bool:
        """Tells whether it went, or did so at a try whose answer was lost; False: something else is there."""
        headers = {"Destination": self._url(target), "Overwrite": "T" if overwrite else "F"}
        status = self._ask("MOVE", source, (404, 412), headers=headers, folder=_above(target)).status_code
        if status == 404 and not overwrite and not self.look(target):
            raise StoreError(f"cannot write {self.describe(target)}: its draft is gone; is its writer's id used twice?")
        return status != 412 or self.look(source) is None

    def _make(self, folder: str) -> bool:
        """Tells whether a folder was made, with those above it; False: something is there.

        Raises:
            StoreError: the place itself is not there, or what is above is no folder.
        """
        status = self._ask("MKCOL", f"{folder}/", (405, 409)).status_code
        if status == 409 and (above := _above(folder)):
            self._make(above)
            status = self._ask("MKCOL", f"{folder}/", (405, 409)).status_code
        if status == 409:
            blocked = bool(self.look(""))
            said = "what is above it is no folder" if blocked else no_folder(self._address)
            raise StoreError(f"cannot make {self.describe(folder)}: {said}", blocked=blocked)
        return status != 405

    def make_way(self, name: str, *, for_folder: bool) -> None:
        """Remove the file, or the folder, that stands where its writer writes the other."""
        if (found := self.look(name)) and found.is_folder is not for_folder:
            say_that_it_went(self.describe(name))
            self._remove(f"{name}/" if found.is_folder else name)

    def delete(self, names: Sequence[str]) -> None:
        """Remove objects, and no folders: DELETE would take all below them."""
        for name in names:
            if not _ONCE.search(name):
                if (found := self.look(name)) and found.is_folder:
                    continue
                self._remove(f"{name}{_WAS}")  # first, or it would be found again
            self._remove(name)

    def clear(self, prefix: str) -> None:
        """Remove all below a prefix: out of sight at once, unless that is the whole experiment."""
        aside = f"{self._drafts}/{uuid.uuid4().hex}"
        if self._drafts.startswith(f"{prefix}/"):
            self._remove(f"{prefix}/")
        else:
            self._move(f"{prefix}/", f"{aside}/", overwrite=True)
            self._remove(f"{aside}/")

    def _remove(self, name: str) -> None:
        self._ask("DELETE", name, (404,))

    def recover(self) -> None:
        """Remove the drafts of a former life of this writer."""
        self._remove(f"{self._drafts}/")

    # ── reading ─────────────────────────────────────────────────────────────────────────────────────────────────────
    def get(self, name: str, limit: int) -> Got:
        headers = self._whole(name, taken := io.BytesIO(), limit)
        meta = _meta(name, str(taken.tell()), headers.get("ETag"), headers.get("Last-Modified"))
        return Got(taken.getvalue(), tag_of(meta))

    def get_range(self, name: str, start: int, end: int) -> bytes:
        taken = io.BytesIO()
        if start < end:
            self._fetch(name, taken, start, end, {"Range": f"bytes={start}-{end - 1}"})
        return taken.getvalue()

    def download(self, name: str, target: Path, limit: int) -> Upload:
        try:
            with open(target, "w+b") as file:
                self._whole(name, file, limit)
                file.seek(0)
                digest = hashlib.file_digest(file, "sha256").hexdigest()
                return Upload(file.tell(), digest)
        except BaseException:
            target.unlink(missing_ok=True)
            raise

    def _whole(self, name: str, into: BinaryIO, limit: int) -> Mapping[str, str]:
        headers = self._fetch(name, into, 0, limit + 1, {})
        if (size := max(into.tell(), _size(headers.get("Content-Length")))) > limit:
            raise ProtocolError("oversized", f"{self.describe(name)} has {size} bytes or more, the limit is {limit}")
        return headers

    def _fetch(self, name: str, into: BinaryIO, begin: int, end: int, asked: Mapping[str, str]) -> Mapping[str, str]:
        """Writes bytes `begin` to `end` of an object, as far as it has them, and returns the answer's headers.

        Args:
            asked: headers that ask for these bytes alone; none: of an object that has more nothing is taken in.
        """

        def take(answer: httpx.Response) -> None:
            into.seek(0)
            into.truncate()
            at = begin if answer.status_code == 206 else 0  # a server that ignores Range gives all
            too_large = not asked and _size(answer.headers.get("Content-Length")) >= end
            for piece in () if too_large else answer.iter_raw():
                into.write(piece[max(begin - at, 0) : end - at])
                if (at := at + len(piece)) >= end:
                    return

        for path in self._ways(name):
            answer = self._ask("GET", path, (*_MOVED, 403, 404, 405, 416), take=take, headers=asked)
            if answer.is_success:
                self.spent.received += into.tell()
                return answer.headers
            if answer.status_code != 404:
                found = self.look(name)  # raises what is the server's, and no single file's
                reason = "not_a_file" if found and found.is_folder else "unreadable"
                raise ProtocolError(reason, f"{self.describe(path)}: the server answered {answer.status_code}")
        raise FileNotFoundError(self.describe(name))

    @staticmethod
    def _ways(name: str) -> Sequence[str]:
        return (name,) if _ONCE.search(name) else (name, f"{name}{_WAS}", name)

    def head(self, name: str) -> ObjectMeta | None:
        found = next((found for path in self._ways(name) if (found := self.look(path))), None)
        return {**found.meta, "path": name} if found and not found.is_folder else None

    def look(self, name: str) -> Child | None:
        """Returns what stands at a name itself; None: nothing."""
        return next(iter(self._names(name, _LOOK)), None)

    def children(self, folder: str) -> list[Child]:
        """Returns the names in a folder, in order; none if it is not there. Those that are no text are left out."""
        found = self._names(f"{folder}/", _LIST)
        own = min((child.meta["path"].count("/") for child in found), default=0)
        return sorted((child for child in found if child.meta["path"].count("/") == own + 1), key=lambda c: c.name)

    def _names(self, name: str, headers: Mapping[str, str]) -> list[Child]:
        found: list[Child] = []

        def take(answer: httpx.Response) -> None:
            found[:] = _named_in(answer.iter_raw())

        moved = _MOVED if name and not name.endswith("/") else ()  # Apache names a folder by its slash alone
        answer = self._ask("PROPFIND", name, (404, *moved), take=take, body=lambda: _PROPERTIES, headers=headers)
        return self._names(f"{name}/", headers) if answer.status_code in moved else found

    def pages(self, prefix: str, after: str) -> Iterator[Sequence[ObjectMeta]]:
        """Yields all objects below a prefix; each folder is a request."""
        page = list[ObjectMeta]()
        for child in sorted(self.children(prefix), key=lambda c: f"{c.name}/" if c.is_folder else c.name):
            path = f"{prefix}/{child.name}"
            if not child.is_folder and path > after:
                page.append({**child.meta, "path": path})
            elif child.is_folder and f"{path}/{BEHIND}" > after and path.count("/") < _DEEPEST:
                if page:
                    yield page
                page = []
                yield from self.pages(path, after)
        if page:
            yield page

    # ── trying ──────────────────────────────────────────────────────────────────────────────────────────────────────
    def _url(self, name: str) -> str:
        return f"{self._address}/{quote(name, safe='/~')}"

    def _ask(
        self,
        method: str,
        name: str,
        taken: Collection[int] = (),
        *,
        take: Callable[[httpx.Response], object] = lambda answer: None,
        body: Callable[[], bytes | Iterable[bytes]] = lambda: b"",
        headers: Mapping[str, str] = {},
        folder: str = "",
    ) -> httpx.Response:
        """Sends a request until it is answered; the folder that it writes to is made where it is missing.

        Args:
            taken: statuses that the caller understands, beside success.
            take: takes in the body of a success, once for each try.
            body: gives what is sent, once for each try.
            folder: where a MOVE leads.

        Raises:
            StoreError: no such answer came; says why, and what to do.
        """
        missing = _MISSING.get(method, ())
        for pause in (*PAUSES, None):
            self.spent.requests["head" if headers is _LOOK else _COUNTED[method]] += 1
            try:
                with self._http.stream(method, self._url(name), content=body(), headers=dict(headers)) as answer:
                    status = answer.status_code
                    if understood := answer.is_success and (status == 207) is (method == "PROPFIND"):
                        take(answer)
                if status in missing:
                    self._make(folder or _above(name))
                    missing = ()
                    continue
                if understood or status in taken:
                    return answer
                problem, passing = refusal(status, self._address), status in _PASSING
            except (httpx.RequestError, ParseError) as error:
                problem, passing = failure(error), not isinstance(error, ParseError)
            if pause is None or not passing:
                break
            self._pause(pause)
        raise StoreError(f"cannot {_VERBS[method]} {self.describe(name)}: {problem}")


# ── what a server says ───────────────────────────────────────────────────────────────────────────────────────────────
def _above(name: str) -> str:
    return name.rstrip("/").rpartition("/")[0]


def _size(length: str | None) -> int:
    return int(length) if length and length.isdecimal() and len(length) < 19 else 0


def _meta(path: str, length: str | None, tag: str | None, modified: str | None) -> ObjectMeta:
    dated = datetime.fromtimestamp(0, UTC)
    with suppress(ValueError, TypeError, OverflowError, IndexError):
        dated = parsedate_to_datetime(modified or "").astimezone(UTC)
    return {"path": path, "size": _size(length), "e_tag": tag, "last_modified": dated}


_VALUES = ("href", "collection", "getcontentlength", "getetag", "getlastmodified")
"""Elements of an answer that say something."""


class _Names:
    """Takes in an answer to PROPFIND element by element, and keeps no tree."""

    def __init__(self) -> None:
        self.found: list[Child] = []
        self._said: dict[str, str] = {}
        self._text, self._depth = "", 0

    def doctype(self, *_: object) -> None:
        raise ParseError("no answer of WebDAV declares entities")

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        self._text, self._depth = "", self._depth + 1
        if self._depth > _DEEPEST:
            raise ParseError("no answer of WebDAV is so deep")

    def data(self, text: str) -> None:
        self._text = (self._text + text)[:_MOST_TEXT]

    def end(self, tag: str) -> None:
        name, text, self._text = tag.removeprefix("{DAV:}"), self._text.strip(), ""
        self._depth -= 1
        if name != "response":
            if name in _VALUES:
                self._said[name] = self._said.get(name) or text  # what has no value is named once more, with 404
            return
        said, self._said = self._said, {}
        with suppress(UnicodeDecodeError):  # no name of ours
            path = unquote(said.get("href", ""), errors="strict").strip("/")
            meta = _meta(path, *map(said.get, _VALUES[2:]))
            self.found.append(Child(path.rpartition("/")[2], "collection" in said, meta))


def _named_in(pieces: Iterable[bytes]) -> list[Child]:
    """Returns what an answer to PROPFIND names, as far as its bounds go. Raises ParseError: it is none."""
    names, size = _Names(), 0
    parser = XMLParser(target=names, encoding="utf-8")
    for piece in pieces:
        parser.feed(piece)
        if (size := size + len(piece)) > MOST_LISTED or len(names.found) > MOST_NAMES:
            return names.found
    parser.close()
    if not names.found:
        raise ParseError("it names nothing")
    return names.found


_CREDENTIALS = "set WEBDAV_USER and WEBDAV_PASSWORD (or WEBDAV_TOKEN), or give ~/.netrc an entry for the host"
_NO_DAV = "see that the URL is that of WebDAV: of a Nextcloud https://HOST/remote.php/dav/files/USER/FOLDER"
_ADVICE = {
    401: f"{_CREDENTIALS}; Nextcloud and ownCloud make an app password under Settings, Security",
    403: "have the folder shared with this user, with the right to edit, create and delete",
    413: "the server takes no file of this size: have its limit raised",
    507: "the storage is full: free space there, its trash and old versions too",
    **dict.fromkeys((200, 400, 405, 501), _NO_DAV),
    **dict.fromkeys(_MOVED, "it moved, or wants a login: name the URL where WebDAV answers itself"),
}
_PASSING = (408, 423, 425, 429, 500, 502, 503, 504)


def no_folder(address: str) -> str:
    """Returns what to say where the folder of the place is not there."""
    return f"there is no folder {address}; make it on the server first, or correct the URL"


def refusal(status: int, address: str) -> str:
    """Returns what an answer means that nobody expected, and what to do."""
    otherwise = "the server is overloaded or out of order: try again later"
    advice = no_folder(address) if status in (404, 409) else _ADVICE.get(status, otherwise)
    return f"the server answered {status}; {advice}"


def failure(error: BaseException) -> str:
    """Returns the same of a request that was not answered, or not in words of WebDAV."""
    cause: BaseException | None = error
    while cause and not isinstance(cause, ssl.SSLError):
        cause = cause.__cause__ or cause.__context__
    if isinstance(error, ParseError):
        return f"the server's answer is not WebDAV's; {_NO_DAV}"
    if isinstance(cause, ssl.SSLCertVerificationError):
        said = f"the server's certificate is not valid: {cause.verify_message}"
        return f"{said}; have it renewed, or name the file of an authority of your own in SSL_CERT_FILE"
    broken = "cannot be reached" if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout) else "breaks off"
    return f"the server {broken}; see that it runs, that its name and http:// or https:// are right, and your network"


# ── the store and the place ──────────────────────────────────────────────────────────────────────────────────────────
class DavStore(BucketStore):
    """One handle of an experiment: a bucket's store, which lists folder by folder."""

    def __init__(self, objects: DavObjects, root: str, writer: str | None) -> None:
        super().__init__(objects, root, writer)
        self._objects = objects

    def list(self, prefix: str, *, after: str = "", limit: int = PAGE, tags: bool = False) -> Page:
        if bundle_of(prefix):
            return super().list(prefix, after=after, limit=limit, tags=tags)
        found = dict[tuple[str, Kind], Entry]()
        for child in self._objects.children(self._name(prefix)):  # `a` before `a~`, and that before `a~was`
            name, tilde, rest = child.name.partition("~")
            key = f"{prefix}/{name}" if prefix else name
            if is_odd(name) or key == keys.DRAFTS:
                continue
            if child.is_folder and not tilde:
                if not holds_bundles(prefix) or self._objects.head(f"{self._name(key)}/{MANIFEST}"):
                    found[name, Kind.PREFIX] = Entry(name, Kind.PREFIX)
            elif child.is_folder and not rest:
                segments = segments_of(self._objects, self._name(key)) if tags else ()
                end = (segments[-1].end, f"{segments[-1].birth}-{segments[-1].end}") if segments else ()
                if segments or not tags:
                    found[name, Kind.FILE] = Entry(name, Kind.FILE, *end)
            elif not child.is_folder and f"{tilde}{rest}" in ("", _WAS):  # the former version counts while it is moved
                version = (child.meta["size"], tag_of(child.meta)) if tags else ()
                found.setdefault((name, Kind.FILE), Entry(name, Kind.FILE, *version))
        return page_of(sorted(found.values()), after, limit)

    def put_bundle(self, prefix: str, fill: Callable[[Path], None]) -> None:
        self._objects.make_way(self._writing(prefix), for_folder=True)
        super().put_bundle(prefix, fill)

    def recover(self) -> None:
        super().recover()
        self._objects.recover()


class DavPlace(ObjectsPlace):
    """A folder of a WebDAV server."""

    KIND = "a folder of a WebDAV server"

    def __init__(self, url: str, http: httpx.Client) -> None:
        self._url, self._http = url, http

    def describe(self) -> str:
        return self._url

    def problem(self) -> str:
        try:
            found = self.objects().look("")
        except StoreError as error:
            return str(error)
        return "" if found and found.is_folder else no_folder(self._url)

    def experiments(self) -> list[str]:
        if problem := self.problem():
            raise StoreError(problem)
        return super().experiments()

    def beside(self, folder: str, writer: str | None = None) -> DavStore:
        objects = DavObjects(self._http, self._url, f"{folder}/{keys.DRAFTS}/{writer}")
        return DavStore(objects, folder, writer)

    def objects(self) -> DavObjects:
        return DavObjects(self._http, self._url, f"{keys.DRAFTS}/doctor")


class Http(httpx.Client):
    """Asks servers with this user's credentials, and keeps nothing that they give, such as cookies."""

    def __init__(self, environ: Mapping[str, str] = os.environ, transport: httpx.BaseTransport | None = None) -> None:
        """Raises StoreError: ~/.netrc cannot be read."""
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
        super().__init__(auth=auth, headers=headers, timeout=timeout, limits=limits, transport=transport)
        self.cookies.jar.set_policy(DefaultCookiePolicy(allowed_domains=()))

    def __del__(self) -> None:
        """Lets go of its connections with the last store that asks by it."""
        with suppress(AttributeError):  # it never began
            self.close()


def open_place(url: str) -> Place:
    """Returns the folder of a WebDAV server as a place, and asks nothing of it yet; the entry point's contract.

    Raises:
        ConfigError: that is no URL.
    """
    for name in ("httpx", "httpcore"):
        logging.getLogger(name).setLevel(logging.WARNING)
    try:
        address = str(httpx.URL(url))
    except httpx.InvalidURL as error:
        raise ConfigError(f"the shared place is no URL ({error}): expected https://HOST/FOLDER") from None
    return DavPlace(address, Http())
