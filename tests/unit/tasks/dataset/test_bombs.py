"""Files and tables of strangers that are meant to hang or fill the server that gets them ready."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from swarm.errors import ConfigError
from swarm.tasks import bounded
from swarm.tasks.dataset import loading, own_answers, reading
from tests.unit.tasks.dataset.making import json_lines, prepared

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
"""The end of a time may fall into a callback of the garbage collector, which swallows it; it comes again."""

READ_IT = """
import resource, sys
from pathlib import Path
from swarm.tasks.dataset.reading import UnreadableError, rows_of
try:
    list(rows_of(Path(sys.argv[1]), ("question", "answer")))
except UnreadableError:
    print("refused", resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""
"""Read in a process of its own, all of whose children are readers: the peak is theirs."""


def refused(folder: Path, row: dict[str, Any], match: str, **parameters: Any) -> None:
    json_lines(folder / "q.jsonl", [row])
    with pytest.raises(ConfigError, match=match):
        prepared(folder, dataset="q.jsonl", **parameters)


@pytest.mark.parametrize(
    ("bound", "said"),
    [
        ("FIRST_CPU_S", r"\[tasks.mine\].*processor time"),
        ("ALL_FIRST_CPU_S", r"0\.05 s .*, all tasks of the run together"),
    ],
)
def test_whatever_hangs_at_a_tasks_first_question_is_named_and_all_tasks_together_get_no_more_time_than_a_few(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bound: str, said: str
) -> None:
    monkeypatch.setattr(f"swarm.tasks.registry.{bound}", 0.05)
    refused(tmp_path, {"question": "q", "answer": "x" * 40 + "|(x+x+)+y"}, said, scorer="regex")


def test_many_short_times_in_one_are_no_longer_than_that() -> None:
    times: list[float] = []

    def many() -> None:
        with bounded.at_most(0.2, ", together"):
            while True:
                with bounded.at_most(60.0):
                    times.append(time.process_time())
                    while time.process_time() - times[-1] < 0.01:
                        pass

    before = signal.getsignal(signal.SIGPROF)
    with pytest.raises(TimeoutError, match=r"0\.2 s of processor time, together"):
        many()
    assert len(times) > 2
    assert (signal.getsignal(signal.SIGPROF), signal.getitimer(signal.ITIMER_PROF)[0]) == (before, 0), "as it was"


def swallows(kind: type[BaseException], times: int) -> None:
    """A library that goes on whatever is raised in it, a number of times; it ends by itself after a second."""
    begun = time.process_time()
    while time.process_time() < begun + 1:
        try:
            while time.process_time() < begun + 1:
                pass
        except kind:
            if not (times := times - 1):
                raise


@pytest.mark.parametrize(("kind", "times"), [(Exception, 1_000_000), (BaseException, 3)])
def test_what_swallows_the_end_of_its_time_is_ended_all_the_same(kind: type[BaseException], times: int) -> None:
    with pytest.raises(TimeoutError, match=r"0\.1 s of processor time"), bounded.at_most(0.1):
        swallows(kind, times)


@pytest.mark.engine
def test_a_sum_of_a_hundred_million_terms_is_refused_with_the_time_that_it_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("math_verify")
    monkeypatch.setattr(own_answers, "SECONDS", 0.5)
    monkeypatch.setattr("swarm.tasks.registry.FIRST_CPU_S", 0.5)
    # Its end may come in a finalizer, which can only tell the interpreter's hook of it; it comes again.
    monkeypatch.setattr("sys.unraisablehook", lambda _: None)
    answer = [r"\sum_{i=1}^{10^8} i^{9999}"]
    refused(tmp_path, {"question": "q", "answer": answer}, r"0\.5 s of processor time", scorer="math")


def test_a_template_that_repeats_a_long_column_is_not_filled_and_refused_with_file_and_line(tmp_path: Path) -> None:
    asked: list[str] = []

    class Row(dict[str, Any]):
        def __getitem__(self, name: str) -> Any:
            asked.append(name)
            return super().__getitem__(name)

    with pytest.raises(ValueError, match="more than 20000 characters"):
        loading.fill("{a}" * 5000, Row(a="x" * 1000), 20_000)
    assert len(asked) < 100
    row = {"question": "x" * 100_000, "answer": "1"}
    refused(tmp_path, row, r"q\.jsonl:1: the question has more than 200000 characters", question="{question}" * 100)


def test_rows_that_a_small_file_swells_to_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "PACKED_LIMIT", 100)
    refused(tmp_path, {"question": "x" * 200, "answer": "1"}, "more than 100 bytes of rows")


@pytest.mark.engine
def test_a_parquet_file_that_swells_is_ended_by_its_readers_memory(tmp_path: Path) -> None:
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    long = pyarrow.DictionaryArray.from_arrays(pyarrow.array([0] * 1000, pyarrow.int32()), ["x" * 20_000_000])
    parquet.write_table(pyarrow.table({"question": long, "answer": ["1"] * 1000}), tmp_path / "q.parquet")
    read = subprocess.run([sys.executable, "-c", READ_IT, tmp_path / "q.parquet"], capture_output=True, check=False)
    refused, _, kilobytes = read.stdout.decode().partition(" ")
    assert refused == "refused", read.stderr.decode()
    assert int(kilobytes) < 1_500_000
