"""What every sink promises, each read back by its own library. Those whose library is not installed are skipped here;
`make test-engines` asks all of them, in the environment of all extras.
"""

from __future__ import annotations

import os
import subprocess
from importlib.util import find_spec
from pathlib import Path

import pytest

from swarm.children import child_environment, code_command
from swarm.plugins.sinks.base import BEFORE_ALL, Sink, SinkRun
from swarm.plugins.sinks.opening import open_sink
from swarm.types import RoundKey
from tests.patience import PATIENCE
from tests.plugins.sinks.libraries import KEPT, keep_apart

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # the libraries' own
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]
DIES = """
import os, signal, sys
from pathlib import Path
from swarm.plugins.sinks.base import SinkRun
from swarm.plugins.sinks.opening import open_sink
from swarm.types import RoundKey
kind, folder, rounds = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
sink = open_sink(kind, SinkRun("exp", "exp-1", folder))
for number in range(rounds):
    sink.row("anna", RoundKey(number), 1e9 + number, {"my_reward": number / 8})
sink.flush()
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture(params=KEPT)
def kind(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    kind = str(request.param)
    if find_spec(kind) is None:
        pytest.skip(f"{kind} is not installed")
    for name, value in keep_apart(tmp_path).items():
        monkeypatch.setenv(name, value)
    if kind == "trackio":  # which reads its variable once
        for module in ("trackio.utils", "trackio.sqlite_storage"):
            monkeypatch.setattr(f"{module}.TRACKIO_DIR", tmp_path / "trackio")
    return kind


@pytest.fixture
def of(tmp_path: Path) -> SinkRun:
    return SinkRun("exp", "exp-1", tmp_path, config={"max_rounds": 9})


def hand_over(sink: Sink, node: str, first: int, end: int) -> None:
    """As a feed does."""
    last = sink.written(node)
    for number in range(first, end):
        if RoundKey(number) > last:
            sink.row(node, RoundKey(number), 1e9 + number, {"my_reward": number / 8, "task_rewards/bf": 1.0})
    sink.flush()


def rewards(kind: str, of: SinkRun, node: str) -> list[tuple[int, float]]:
    return [(step, values["my_reward"]) for step, values in KEPT[kind](of, node)]


def expected(rounds: int) -> list[tuple[int, float]]:
    return [(number, number / 8) for number in range(rounds)]


def test_rows_arrive_once_in_their_order_for_each_node(kind: str, of: SinkRun) -> None:
    sink = open_sink(kind, of)
    for node in ("anna", "ben"):
        hand_over(sink, node, 0, 5)
    sink.close()
    assert rewards(kind, of, "anna") == rewards(kind, of, "ben") == expected(5)
    assert KEPT[kind](of, "anna")[0][1] == {"my_reward": 0.0, "task_rewards/bf": 1.0}


def test_a_sink_that_is_opened_again_knows_what_it_has_and_goes_on(kind: str, of: SinkRun) -> None:
    first = open_sink(kind, of)
    assert first.written("anna") == BEFORE_ALL
    hand_over(first, "anna", 0, 3)
    first.close()
    second = open_sink(kind, of)
    assert second.written("ben") == BEFORE_ALL
    assert second.written("anna").round == 2
    hand_over(second, "anna", 0, 6)
    second.close()
    assert rewards(kind, of, "anna") == expected(6)


@pytest.mark.parametrize("rounds", [1, 400])
def test_after_a_kill_no_row_is_missing_and_none_is_there_twice(
    kind: str, of: SinkRun, tmp_path: Path, rounds: int
) -> None:
    environ = child_environment({**os.environ, **keep_apart(tmp_path)})
    died = subprocess.run(
        code_command(DIES, kind, str(tmp_path), str(rounds)), env=environ, check=False, timeout=PATIENCE
    )
    assert died.returncode == -9
    sink = open_sink(kind, of)
    hand_over(sink, "anna", 0, rounds + 2)
    sink.close()
    assert rewards(kind, of, "anna") == expected(rounds + 2)


def test_a_file_that_a_kill_has_cut_is_read_up_to_there(kind: str, of: SinkRun, tmp_path: Path) -> None:
    sink = open_sink(kind, of)
    hand_over(sink, "anna", 0, 4)
    sink.close()
    files = [*tmp_path.rglob("events.out.tfevents.*"), *tmp_path.rglob("run-*.wandb")]
    if not files:
        pytest.skip(f"{kind} keeps a database")
    (file,) = files
    for cut in range(1, file.stat().st_size, 7):
        os.truncate(file, file.stat().st_size - min(7, file.stat().st_size))
        again = open_sink(kind, of)
        assert BEFORE_ALL <= again.written("anna") <= RoundKey(3), f"{cut} bytes cut"


def test_stages_of_a_round_are_rows_of_their_own(kind: str, tmp_path: Path) -> None:
    of = SinkRun("exp", "exp-1", tmp_path, stages=2)
    for _ in range(2):
        sink = open_sink(kind, of)
        last = sink.written("anna")
        for key in (RoundKey(0), RoundKey(0, 1), RoundKey(1), RoundKey(1, 1)):
            if key > last:
                sink.row("anna", key, 1e9, {f"stage_{key.stage}/my_reward" if key.stage else "my_reward": 0.5})
        sink.close()
    found = [values for _, values in KEPT[kind](of, "anna")]
    assert found == [{"my_reward": 0.5}, {"stage_1/my_reward": 0.5}] * 2


def test_an_experiment_that_was_begun_anew_shares_nothing_with_the_one_before(kind: str, tmp_path: Path) -> None:
    for name, rounds in (("exp-1", 5), ("exp-2", 3)):
        sink = open_sink(kind, SinkRun("exp", name, tmp_path))
        hand_over(sink, "anna", 0, rounds)
        sink.close()
    if kind != "wandb":  # whose files name a node, and not its run's name
        assert rewards(kind, SinkRun("exp", "exp-1", tmp_path), "anna") == expected(5)
        assert rewards(kind, SinkRun("exp", "exp-2", tmp_path), "anna") == expected(3)
    assert open_sink(kind, SinkRun("exp", "exp-2", tmp_path)).written("anna").round == 2


@pytest.mark.parametrize("experiment", ["a_system", "x" * 128])
def test_names_of_experiments_that_mean_something_to_a_library_do_no_harm(
    kind: str, tmp_path: Path, experiment: str
) -> None:
    of = SinkRun(experiment, f"{experiment}-1", tmp_path)
    sink = open_sink(kind, of)
    hand_over(sink, "a" * 64, 0, 2)
    sink.close()
    assert rewards(kind, of, "a" * 64) == expected(2)
