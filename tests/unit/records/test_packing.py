"""What comes out of a packed file that anybody may have written: regular files, to the last byte, or a refusal."""

from __future__ import annotations

import gzip
import io
import tarfile
from collections.abc import Callable

import pytest

from swarm.errors import ProtocolError
from swarm.records.packing import LONGEST_END, members, pack

FILES = {"round_0/anna.json": b"{}", "round_0/ben.json": b"x" * 1000, "round_1/empty.json": b""}
PACKED = pack(FILES)


def read(packed: bytes, most: int = 2**22) -> dict[str, bytes]:
    return dict(members(io.BytesIO(packed), most))


def of_another_kind(kind: bytes) -> bytes:
    """One more entry, of a kind that is no regular file."""
    head = tarfile.TarInfo("evil")
    head.type, head.linkname = kind, "/etc/passwd"
    whole = gzip.decompress(PACKED)[: -2 * tarfile.BLOCKSIZE]
    return gzip.compress(whole + head.tobuf(tarfile.USTAR_FORMAT) + bytes(2 * tarfile.BLOCKSIZE))


KINDS = {
    "a link": tarfile.SYMTYPE,
    "a hard link": tarfile.LNKTYPE,
    "a folder": tarfile.DIRTYPE,
    "a device": tarfile.CHRTYPE,
    "a pipe": tarfile.FIFOTYPE,
    "a sparse file": tarfile.GNUTYPE_SPARSE,
    "an extended header": tarfile.XHDTYPE,
}
BAD: dict[str, Callable[[], bytes]] = {
    "a cut tar": lambda: gzip.compress(gzip.decompress(PACKED)[:-1500]),
    "a cut gzip": lambda: PACKED[:-9],
    "a wrong checksum": lambda: PACKED[:-8] + bytes(8),
    "garbage behind it": lambda: PACKED + b"garbage" * 100,
    "another archive behind it": lambda: PACKED + PACKED,
    "zeros without end": lambda: PACKED + gzip.compress(bytes(LONGEST_END)),
    "no tar": lambda: gzip.compress(b"x" * 2048),
    "no gzip": lambda: b"x" * 2048,
}


def test_what_was_packed_comes_out_here_and_of_any_tar() -> None:
    assert read(PACKED) == FILES
    with tarfile.open(fileobj=io.BytesIO(PACKED)) as there:
        assert there.getnames() == list(FILES)


def test_zeros_that_other_programs_put_behind_the_last_file_are_no_harm() -> None:
    assert read(PACKED + gzip.compress(bytes(8 * tarfile.BLOCKSIZE))) == FILES


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_but_regular_files_comes_out(kind: str) -> None:
    with pytest.raises(ProtocolError, match="'evil' is no regular file"):
        read(of_another_kind(KINDS[kind]))


@pytest.mark.parametrize("what", BAD)
def test_what_does_not_end_where_its_last_file_does_is_refused(what: str) -> None:
    with pytest.raises(ProtocolError) as caught:
        read(BAD[what]())
    assert caught.value.reason == "malformed"


def test_no_more_is_unpacked_than_is_allowed() -> None:
    with pytest.raises(ProtocolError) as caught:
        read(pack({"a": bytes(2**23)}))
    assert caught.value.reason == "oversized"
