"""A run as one file, and back; what strangers make of such a file."""

from __future__ import annotations

import gzip
import hashlib
import io
import tarfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest

from swarm.errors import ProtocolError, StoreError
from swarm.records import whole_run
from swarm.records.packing import PackWriter
from swarm.records.whole_run import MANIFEST, PackedFile, PackedRun, check_packed, is_safe, pack_run, unpack_run

FILES = {
    "summary.txt": b"all is well\n",
    "experiments/demo/experiment.json": b"{}\n",
    "experiments/demo/rollouts/round_0/stage_0/anna.json": b"{}\n",
    "experiments/demo/checkpoints/round_3/anna/model/model.safetensors": bytes(100_000),
    "experiments/demo/logs/anna/metrics.jsonl": b"{}\n{}\n",
    "archives/demo/rollouts/round_0-0123456789abcdef.tar.gz": b"packed",
}


def packed(files: dict[str, bytes] = FILES) -> io.BytesIO:
    """By hand, whatever the names are."""
    return forged({name: (data, data) for name, data in files.items()})


def forged(files: dict[str, tuple[bytes, bytes]], experiment: str = "demo") -> io.BytesIO:
    """What the manifest says, and what follows."""
    out = io.BytesIO()
    writer = PackWriter(out)
    said = {name: PackedFile(len(said), hashlib.sha256(said).hexdigest()) for name, (said, _) in files.items()}
    writer.add(MANIFEST, msgspec.json.encode(PackedRun(experiment=experiment, packed_at=1.0, swarm="1", files=said)))
    for name, (_, data) in files.items():
        writer.add(name, data)
    writer.close()
    out.seek(0)
    return out


def files_below(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_what_was_packed_comes_out_by_any_tar_too(tmp_path: Path) -> None:
    for name, data in FILES.items():
        (tmp_path / "run" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "run" / name).write_bytes(data)
    (tmp_path / "run/experiments/demo/.tmp/anna").mkdir(parents=True)
    (tmp_path / "run/experiments/demo/.tmp/anna/draft").write_bytes(b"half")
    out = io.BytesIO()
    pack_run(tmp_path / "run", "demo", out, packed_at=1.0, swarm="1")
    out.seek(0)
    assert check_packed(out).files.keys() == FILES.keys()
    out.seek(0)
    unpack_run(out, tmp_path / "back")
    assert files_below(tmp_path / "back") == FILES
    out.seek(0)
    with tarfile.open(fileobj=out) as tar:
        tar.extractall(tmp_path / "tar", filter="data")
    assert {name: data for name, data in files_below(tmp_path / "tar").items() if name != MANIFEST} == FILES


@pytest.mark.parametrize("at", range(3))
def test_broken_off_it_goes_on_and_mends_what_is_half_there(tmp_path: Path, at: int) -> None:
    whole = packed().getvalue()
    with pytest.raises(ProtocolError):
        unpack_run(io.BytesIO(whole[: len(whole) * (at + 1) // 4]), tmp_path)
    for path in list(tmp_path.rglob("*.json"))[:1]:
        path.write_bytes(b"[]\n")
    unpack_run(io.BytesIO(whole), tmp_path)
    assert {name: data for name, data in files_below(tmp_path).items() if name != "half"} == FILES


@pytest.mark.parametrize(
    "name",
    [
        "/etc/passwd",
        "../escaped",
        "experiments/demo/../../../escaped",
        "experiments/demo/logs/anna/../../../../escaped",
        "experiments/demo/logs/anna/a\\..\\b",
        "experiments/demo/logs/anna/C:x",
        "experiments/demo/logs/anna/aux.txt",
        "experiments/demo/logs/anna/dot.",
        "experiments/demo/.tmp/anna/draft",
        "experiments/other/experiment.json",
        "experiments/demo/anything",
        "experiments/demo/logs/../x.json",
        "archives/demo/rollouts/round_0.tar.gz",
        "archives/other/rollouts/round_0-0123456789abcdef.tar.gz",
        "restoring/demo/x",
        "experiments//demo/experiment.json",
        "experiments/demo/logs/anna/\x1b[2J",
    ],
)
def test_names_that_no_run_has_are_refused_before_anything_is_written(tmp_path: Path, name: str) -> None:
    assert not is_safe(name, "demo")
    with pytest.raises(ProtocolError):
        unpack_run(packed(FILES | {name: b"x"}), tmp_path / "here" / "in")
    assert files_below(tmp_path) == {}


def odd(kind: bytes, **fields: str | int) -> io.BytesIO:
    """A packed run whose second file is something else, which has the name and size of the file."""
    name = "experiments/demo/experiment.json"
    whole = gzip.decompress(packed({name: b""}).getvalue())
    head = tarfile.TarInfo(name)
    head.type = kind
    for field, value in fields.items():
        setattr(head, field, value)
    start = whole.index(tarfile.TarInfo(name).tobuf(tarfile.USTAR_FORMAT)[:100])
    return io.BytesIO(gzip.compress(whole[:start] + head.tobuf(tarfile.GNU_FORMAT) + whole[start + 512 :]))


@pytest.mark.parametrize(
    "file",
    [
        odd(tarfile.SYMTYPE, linkname="/etc/passwd"),
        odd(tarfile.LNKTYPE, linkname="experiments/demo/state/current_state.json"),
        odd(tarfile.CHRTYPE, devmajor=1, devminor=5),
        odd(tarfile.FIFOTYPE),
        odd(tarfile.DIRTYPE),
        odd(tarfile.GNUTYPE_SPARSE),
        odd(tarfile.GNUTYPE_LONGNAME),
        odd(tarfile.XHDTYPE),
    ],
    ids=["symlink", "hard link", "device", "fifo", "folder", "hole", "long name", "extended header"],
)
def test_nothing_but_regular_files_comes_out(tmp_path: Path, file: io.BytesIO) -> None:
    file.seek(0)
    with pytest.raises(ProtocolError):
        unpack_run(file, tmp_path)
    assert not (tmp_path / "experiments/demo/experiment.json").exists()


ONE = "experiments/demo/logs/anna/metrics.jsonl"


def bomb() -> io.BytesIO:
    out = io.BytesIO()
    with gzip.GzipFile(fileobj=out, mode="wb") as zipped:
        for _ in range(80):
            zipped.write(bytes(2**20))
    out.seek(0)
    return out


LYING: dict[str, Callable[[], io.BytesIO]] = {
    "other bytes": lambda: forged({ONE: (b"said", b"done")}),
    "longer than said": lambda: forged({ONE: (b"short", b"much longer")}),
    "shorter than said": lambda: forged({ONE: (b"much longer", b"short")}),
    "junk": lambda: io.BytesIO(b"junk"),
    "empty": io.BytesIO,
    "bomb of zeros": bomb,
    "name of an experiment": lambda: forged({}, "../up"),
}


def test_where_capitals_do_not_count_no_file_takes_anothers_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    both = {ONE: b"1", ONE.replace("anna", "ANNA"): b"2"}
    unpack_run(packed(both), tmp_path / "unix")
    assert {name: (tmp_path / "unix" / name).read_bytes() for name in both} == both
    monkeypatch.setattr(whole_run, "folds_case", lambda folder: True)
    with pytest.raises(ProtocolError, match="capitals"):
        unpack_run(packed(both), tmp_path / "mac")


@pytest.mark.parametrize("lie", LYING)
def test_a_file_that_is_not_what_it_says_is_refused(tmp_path: Path, lie: str) -> None:
    with pytest.raises(ProtocolError):
        unpack_run(LYING[lie](), tmp_path)
    assert not (tmp_path / ONE).exists()


def test_what_the_disk_has_no_room_for_is_refused_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(whole_run.shutil, "disk_usage", lambda folder: SimpleNamespace(free=1000))
    with pytest.raises(StoreError, match="has room for"):
        unpack_run(packed(), tmp_path)
    assert files_below(tmp_path) == {}
