"""Files that are packed: read by everybody, smaller, and bounded whoever wrote them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import zstandard
from hypothesis import assume, given
from hypothesis import strategies as st

from swarm.errors import ProtocolError
from swarm.store.bucket.packing import FRAME, LARGEST_WINDOW, LEAST, pack, unpack
from tests.unit.store.bucket.buckets import MemoryBucket

KEY = "rollouts/round_0/stage_0/anna.json"
TEXT = b'{"rollouts": "' + b"<think>\n" * 1000 + b"".join(b"%x" % 3**power for power in range(20)) + b'"}'
"""Packed, it is longer than what is unpacked at once."""
LIMIT = 2**20


@given(st.builds(bytes.__mul__, st.binary(max_size=9), st.integers(0, 4 * LEAST)))
def test_what_is_packed_comes_out_as_it_was_and_is_never_longer(data: bytes) -> None:
    assume(not data.startswith(FRAME))
    packed = pack(data)
    assert len(packed) <= len(data)
    assert unpack(packed, len(data), "x") == data


def test_a_node_that_packs_and_one_that_does_not_read_each_other() -> None:
    bucket = MemoryBucket()
    one, other = bucket.open("anna", packs=True), bucket.open("ben")
    one.put(KEY, TEXT)
    other.put(KEY.replace("anna", "ben"), TEXT)
    assert len(bucket.read(KEY)) < len(TEXT) / 10
    assert bucket.read(KEY.replace("anna", "ben")) == TEXT
    for store in (one, other):
        assert [store.get(key, LIMIT).data for key in (KEY, KEY.replace("anna", "ben"))] == [TEXT, TEXT]
    assert one.facts().spent.spared == 2 * (len(TEXT) - len(bucket.read(KEY)))
    assert other.facts().spent.spared == len(TEXT) - len(bucket.read(KEY))


def test_what_readers_would_refuse_as_far_too_long_is_not_packed() -> None:
    one, same = MemoryBucket().open("anna", packs=True), b'{"rollouts": "' + bytes(LIMIT // 2) + b'"}'
    one.put(KEY, same)
    assert one.get(KEY, LIMIT).data == same


def test_a_packed_file_is_copied_as_it_was(tmp_path: Path) -> None:
    store = MemoryBucket().open("anna", packs=True)
    store.put(KEY, TEXT)
    store.get_to_file(KEY, tmp_path / "copy", LIMIT)
    assert (tmp_path / "copy").read_bytes() == TEXT


def with_window(size: int) -> bytes:
    parameters = zstandard.ZstdCompressionParameters(window_log=size.bit_length() - 1)
    one = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    return one.compress(TEXT) + one.flush()


WHOLE = zstandard.ZstdCompressor().compress(TEXT)
HOSTILE = {
    "a quarter of a gigabyte of nothing": (zstandard.ZstdCompressor().compress(bytes(2**28)), "oversized"),
    "a little more than the limit": (zstandard.ZstdCompressor().compress(bytes(LIMIT + 1)), "oversized"),
    "many times as long as it was": (zstandard.ZstdCompressor().compress(bytes(LIMIT // 2)), "oversized"),
    "cut off": (WHOLE[:-5], "malformed"),
    "followed by another": (WHOLE + WHOLE, "malformed"),
    "no frame": (WHOLE[:4] + b"nothing of the kind", "malformed"),
    "of a window that is too large": (with_window(LARGEST_WINDOW * 2), "malformed"),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_what_strangers_pack_costs_a_reader_no_more_than_what_they_do_not(kind: str) -> None:
    data, reason = HOSTILE[kind]
    bucket = MemoryBucket()
    bucket.write(KEY, data)
    with pytest.raises(ProtocolError) as refused:
        bucket.open().get(KEY, LIMIT)
    assert refused.value.reason == reason
    assert "anna.json" in str(refused.value)


def test_who_lacks_the_library_is_told_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with pytest.raises(ProtocolError, match=r'pip install .*"zstandard'):
        unpack(WHOLE, LIMIT, "x")
