"""Bundles: data objects under a random id, and a manifest that names them, put last.

put       ~{id}/0, ~{id}/1 ... ─▶ ~manifest ─▶ data of ids before the one that was replaced goes
again     another id; readers of the former one find its data until the next put
remove    ~manifest ─▶ everything below the prefix
open      ~manifest ─▶ ~{id}/... ─▶ a local folder; where they are gone meanwhile, the new manifest

Readers believe nothing: a manifest names files and an id below its own prefix, within bounds, and each file has the
size and the digest that it says, or the bundle is refused.
"""

from __future__ import annotations

import re
import tempfile
import uuid
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path, PurePosixPath

import msgspec

from swarm import forms
from swarm.errors import ProtocolError, StoreError
from swarm.store.base import Entry, Kind
from swarm.store.bucket.listing import MANIFEST, objects
from swarm.store.bucket.objects import Objects
from swarm.store.copies import MOST_BYTES_IN_A_BUNDLE, MOST_IN_A_BUNDLE, no_room, opened

_MOST_MANIFEST = 8 * 2**20
_VERSION = 1
_ID = re.compile(r"[0-9a-f]{32}")


class File(msgspec.Struct, frozen=True):
    """One file of a bundle; its number is its place in the list."""

    path: str
    size: int
    sha256: str


class BundleManifest(msgspec.Struct, frozen=True):
    """Names the data objects that make a bundle."""

    version: int
    id: str
    files: list[File]


def put_bundle(client: Objects, prefix: str, fill: Callable[[Path], None]) -> None:
    """Writes a bundle; it implements Store.put_bundle."""
    where, id_ = client.describe(prefix), uuid.uuid4().hex
    try:
        with tempfile.TemporaryDirectory(prefix="swarm-bundle-") as name:
            fill(Path(name))
            files = [_sent(client, prefix, id_, number, at) for number, at in enumerate(_files(Path(name)))]
    except FileNotFoundError as error:
        raise StoreError(f"cannot write {where}: {error}") from error
    except OSError as error:
        raise StoreError(f"cannot write {where}: {error.strerror or error}") from error
    former = _id_of(client, prefix)
    client.put(f"{prefix}/{MANIFEST}", msgspec.json.encode(BundleManifest(_VERSION, id_, files)))
    client.delete([prefix])
    there = {meta["path"].removeprefix(f"{prefix}/").partition("/") for meta in objects(client, prefix)}
    for data in sorted({name for name, slash, _ in there if slash and name.startswith("~")}):
        if data not in (f"~{id_}", f"~{former}"):
            client.clear(f"{prefix}/{data}")


def _files(folder: Path) -> list[tuple[Path, str]]:
    found = sorted(path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    return [(path, path.relative_to(folder).as_posix()) for path in found]


def _sent(client: Objects, prefix: str, id_: str, number: int, at: tuple[Path, str]) -> File:
    sent = client.upload(f"{prefix}/~{id_}/{number}", at[0])
    return File(at[1], sent.size, sent.digest)


def _id_of(client: Objects, prefix: str) -> str:
    """Returns the id of the bundle that is there, "" if none can be read."""
    try:
        return manifest_of(client, prefix).id
    except (FileNotFoundError, ProtocolError):
        return ""


def recover(client: Objects, below: str, writer: str) -> None:
    """Remove the data of bundles of this writer that never had a manifest.

    Where no checkpoint of his lies, he may not be allowed to remove what strangers put there.
    """
    begun, whole = set[str](), set[str]()
    for meta in objects(client, below):
        prefix, tilde, _ = meta["path"].partition("/~")
        if tilde and prefix.endswith(f"/{writer}") and prefix.removeprefix(f"{below}/").count("/") == 1:
            (whole if meta["path"] == f"{prefix}/{MANIFEST}" else begun).add(prefix)
    for prefix in sorted(begun - whole):
        client.clear(prefix)


def manifest_of(client: Objects, prefix: str) -> BundleManifest:
    """Returns the manifest of a bundle, checked.

    Raises:
        FileNotFoundError: there is none.
        ProtocolError: `oversized`, `malformed`, `wrong_version` or `unreadable`.
    """
    data = client.get(f"{prefix}/{MANIFEST}", _MOST_MANIFEST).data
    try:
        manifest = forms.decode(data, BundleManifest)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise ProtocolError("malformed", f"the manifest of {client.describe(prefix)}: {error}") from None
    if manifest.version != _VERSION:
        raise ProtocolError("wrong_version", f"the manifest of {client.describe(prefix)} has another than {_VERSION}")
    total = sum(file.size for file in manifest.files)
    if len(manifest.files) > MOST_IN_A_BUNDLE or total > MOST_BYTES_IN_A_BUNDLE:
        raise ProtocolError(
            "oversized",
            f"the manifest of {client.describe(prefix)} names {len(manifest.files)} files of {total} bytes, more than "
            f"{MOST_IN_A_BUNDLE} files or {MOST_BYTES_IN_A_BUNDLE} bytes",
        )
    if not _ID.fullmatch(manifest.id) or any(file.size < 0 for file in manifest.files) or not _fit(manifest.files):
        raise ProtocolError("malformed", f"the manifest of {client.describe(prefix)} names what no bundle has")
    return manifest


def _fit(files: Sequence[File]) -> bool:
    """Tells whether the paths are those of files in one folder: relative, plain, each once, none below another."""
    paths = [PurePosixPath(file.path) for file in files]
    plain = all(_is_plain(file.path) for file in files)
    above = {parent for path in paths for parent in path.parents}
    return plain and len({*paths}) == len(paths) and above.isdisjoint(paths)


def _is_plain(path: str) -> bool:
    parts = path.split("/")
    short = len(parts) <= 16 and all(0 < len(part.encode("utf-8", "replace")) <= 255 for part in parts)
    return short and {".", ".."}.isdisjoint(parts) and path.isprintable() and "\\" not in path


def object_of(prefix: str, manifest: BundleManifest, path: str) -> str:
    """Returns the name of the object that holds a file of a bundle; "" if it has none of that path."""
    numbers = (number for number, file in enumerate(manifest.files) if file.path == path)
    return next((f"{prefix}/~{manifest.id}/{number}" for number in numbers), "")


def entries_of(manifest: BundleManifest, below: str, *, tags: bool) -> list[Entry]:
    """Returns the names in a bundle, or in a folder of it, in order."""
    found = dict[str, Entry]()
    for file in manifest.files:
        if not file.path.startswith(f"{below}/" if below else ""):
            continue
        name, slash, _ = file.path.removeprefix(f"{below}/" if below else "").partition("/")
        of_file = Entry(name, Kind.FILE, file.size, file.sha256) if tags else Entry(name, Kind.FILE)
        found[name] = Entry(name, Kind.PREFIX) if slash else of_file
    return [found[name] for name in sorted(found)]


def open_bundle(client: Objects, prefix: str) -> AbstractContextManager[Path]:
    """A local folder with a bundle's files; it implements Store.open_bundle."""

    def gather(folder: Path) -> bool:
        manifest = manifest_of(client, prefix)
        if _fetched(client, prefix, manifest, folder):
            return True
        if _id_of(client, prefix) == manifest.id:
            raise ProtocolError("unreadable", f"{client.describe(prefix)} lacks files that its manifest names")
        return False

    return opened(client.describe(prefix), gather)


def _fetched(client: Objects, prefix: str, manifest: BundleManifest, folder: Path) -> bool:
    """Bring the files here; False if one of them is gone.

    Raises:
        ProtocolError: one is not what the manifest says.
        StoreError: the folder cannot be written.
    """
    for number, file in enumerate(manifest.files):
        target = folder / file.path
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            got = client.download(f"{prefix}/~{manifest.id}/{number}", target, file.size)
        except FileNotFoundError:
            return False
        except OSError as error:
            raise no_room(error) from error
        if (got.size, got.digest) != (file.size, file.sha256):
            raise ProtocolError("unreadable", f"{client.describe(prefix)}: {file.path} is not what its manifest says")
    return True
