"""A short campaign in each run of the tests; `python -m tests.fuzz --files 100000` is the long one."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from swarm.harmless import printable
from swarm.records.listing import count_files, nodes_in, nodes_with_logs
from swarm.views.status import StatusReader, render
from swarm.wire import keys
from swarm.wire.keys import is_node_id
from tests.fuzz.campaign import CORPUS, MOST_GROWTH, SLOWEST, Found, drawn, placed, seeds
from tests.fuzz.mutators import ESC
from tests.fuzz.readers import KEY, READERS, TerminalError, read
from tests.fuzz.reading_process import Answer
from tests.layout import Layout
from tests.patience import PATIENCE
from tests.unit.views.factories import run_of

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")


@LINUX
def test_hostile_files_of_every_kind_are_refused_quickly_and_nothing_breaks() -> None:
    command = [sys.executable, "-m", "tests.fuzz", "--files", "4000", "--seed", "1"]  # 3,532 of them made by hand
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert int(ended.stdout.split()[0]) >= 4000


VIOLATIONS: dict[str, tuple[Answer, str]] = {
    "a crash": (Answer(crash="Traceback"), "crash: state, odd: Traceback"),
    "a slow refusal": (
        Answer(outcome="malformed", seconds=SLOWEST * 0.011, reference=0.01),
        "state: odd took 44.0 references",
    ),
    "a command": (Answer(forbidden=1), "1 audit events"),
    "a large reading": (Answer(outcome="malformed", growth=MOST_GROWTH + 1), "by state: odd"),
}


@pytest.mark.parametrize("name", VIOLATIONS)
def test_what_must_not_be_is_a_violation(name: str) -> None:
    answer, said = VIOLATIONS[name]
    found = Found()
    found.note("state", "odd", Answer(outcome="malformed", seconds=SLOWEST / 100, reference=0.01, growth=MOST_GROWTH))
    assert found.violations == []
    found.note("state", "odd", answer)
    (violation,) = found.violations
    assert said in violation


def test_good_files_are_taken(tmp_path: Path) -> None:
    """Else the campaign would fuzz nothing but the first refusal."""
    good = {kind: files[0] for kind, files in seeds().items()} | {"rollouts": drawn()}
    for kind, data in good.items():
        layout = Layout(tmp_path / kind, "exp")
        with placed(layout, kind, writing(data)):
            assert read(kind, layout) == "", kind


def writing(data: bytes) -> Callable[[Path], Any]:
    return lambda path: path.write_bytes(data)


@pytest.mark.parametrize("kind", READERS)
def test_what_went_new_ways_through_a_reader_is_still_refused_or_taken(kind: str, tmp_path: Path) -> None:
    layout = Layout(tmp_path, "exp")
    for file in sorted((CORPUS / kind).glob("*")):
        with placed(layout, kind, writing(file.read_bytes())):
            assert isinstance(read(kind, layout), str), file


def test_what_a_terminal_would_obey_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("swarm.views.text.printable", lambda text: text)
    layout = Layout(tmp_path, "exp")
    data = peer_file(model="m", node_role=ESC)
    with placed(layout, "peer", writing(data)), pytest.raises(TerminalError):
        read("peer", layout)


def peer_file(**fields: str) -> bytes:
    good = json.loads(seeds()["peer"][0])
    return json.dumps({**good, **fields}).encode()


# ── names ───────────────────────────────────────────────────────────────────────────────────────────────────────────
ODD_NAMES: tuple[bytes, ...] = (
    *(
        b"\xff\xfe.json",
        b"two\nlines.json",
        b"tab\t.json",
        b"\x1b[2J.json",
        b"a" * 250 + b".json",
        b"a" * 65 + b".json",
    ),
    *(b".json", b"..json", b"...json", b".hidden.json", b"-rf.json", b"a b.json", b"a;b.json", b"$(x).json", b"A.JSON"),
    *("\u202eben.json".encode(), "é.json".encode(), "é.json".encode(), b"ben.json~", b"ben", b"a.json.json"),
    *(b"ben.sync-conflict-1.json", b"round_01", b"round_-1", b"round_1e9", b"round_99999999999", b"stage_0"),
)


def put_names(folder: Path) -> None:
    """Files of all the odd names, and one of a good one."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in (*ODD_NAMES, b"ben.json"):
        with open(bytes(folder) + b"/" + name, "wb") as file:
            file.write(b"{}")


def test_of_odd_names_in_any_folder_only_node_ids_come_out(tmp_path: Path) -> None:
    layout = Layout(tmp_path, "exp")
    for folder in (layout.peers, layout.rollouts_of(KEY), layout.rewards_of(KEY), layout.rollouts, layout.logs):
        put_names(folder)
    for folder in (layout.peers, layout.rollouts_of(KEY), layout.rewards_of(KEY)):
        assert nodes_in(layout.run.store, layout.key(folder)) == {"ben"}
    counted = count_files(layout.run.store, keys.ROLLOUTS)
    assert counted.nodes == {KEY: {"ben"}}
    assert all(printable(str(path)).isprintable() for path in counted.strays)
    assert all(is_node_id(name) for name in nodes_with_logs(layout.run))
    shown = render(StatusReader(run_of(layout), liveness_timeout=60.0).read(wall=1.0))
    assert shown.replace("\n", "").isprintable()
