"""A judge at work on a real folder, with nodes that exist only as files."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from swarm.config import JUDGE
from swarm.errors import ExperimentError, StoreError
from swarm.judge.judge import MOST_BYTES, Judge
from swarm.node.process.system import ThreadBlocking
from swarm.records.files import SMALL_FILE
from swarm.store.place import open_place
from swarm.store.run import Run
from swarm.wire import keys
from swarm.wire.codec import decode, encode
from swarm.wire.judge_messages import JudgeAnswer, JudgedRow, JudgeQuestion
from swarm.wire.messages import ExperimentFile
from tests.patience import PATIENCE
from tests.unit.node.factories import FakeTaskSource, fake_rewards, make_peer, make_settings, make_state
from tests.unit.node.nodes import until

pytestmark = pytest.mark.anyio


def make_experiment(path: Path, *nodes: str) -> Run:
    """An experiment at round 0 of 10 with these live workers."""
    run = open_place(path).open("exp", writer=JUDGE)
    identity = {"seed": 42, "profile": "tiny", "tasks": None}
    file = ExperimentFile(experiment_name="exp", created_at=1.0, created_by="clock", identity=identity)
    run.store.put(keys.EXPERIMENT, encode(file))
    for node in nodes:
        run.store.put(keys.peer(node), encode(make_peer(node, last_seen=time.time())))
    set_round(run, 0)
    return run


def set_round(run: Run, round_: int, **more: Any) -> None:
    run.store.put(keys.STATE, encode(make_state(round=round_, **more)))


def make_judge(run: Run) -> Judge:
    return Judge(make_settings(Path(run.place)), run, FakeTaskSource(), ThreadBlocking())


@asynccontextmanager
async def judging(run: Run) -> AsyncIterator[Judge]:
    """A judge in the background, stopped at the end."""
    judge = make_judge(run)
    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(judge.run)
            yield judge
            judge.stop(143)


def question(run: Run, round_: int, node: str) -> JudgeQuestion:
    return decode(run.store.get(keys.judge_question(round_, node), SMALL_FILE).data, JudgeQuestion, "question")


def answer(run: Run, round_: int, node: str, **more: Any) -> JudgeAnswer:
    """Be the node."""
    fields: dict[str, Any] = {
        "peer_id": node,
        "round": round_,
        "question_id": question(run, round_, node).question_id,
        "response": f"<answer>{node} {round_}</answer>",
        "answered_at": 1.0,
        **more,
    }
    said = JudgeAnswer(**fields)
    run.store.put(keys.judge_answer(round_, node), encode(said))
    return said


def rows(run: Run) -> list[JudgedRow]:
    return [msgspec.json.decode(line, type=JudgedRow) for line in run.store.read_records(keys.JUDGED).records]


async def until_asked(run: Run, round_: int, node: str) -> None:
    await until(lambda: run.store.stat(keys.judge_question(round_, node)))


async def test_answers_become_rows(tmp_path: Path) -> None:
    run = make_experiment(tmp_path, "anna", "ben")
    async with judging(run):
        await until_asked(run, 0, "anna")
        said = answer(run, 0, "anna")
        await until(lambda: rows(run))
    (row,) = rows(run)
    asked = question(run, 0, "anna")
    (reward,) = fake_rewards([said.response])
    assert (row.node_id, row.round, row.task, row.profile) == ("anna", 0, asked.task, "tiny")
    assert (row.reward, row.full_answer, row.answered) == (reward, reward == 1.0, True)
    assert row.question_id == asked.question_id


async def test_a_question_file_says_nothing_from_which_its_answer_could_be_made(tmp_path: Path) -> None:
    run = make_experiment(tmp_path, "anna")
    async with judging(run):
        await until_asked(run, 0, "anna")
    said = msgspec.json.decode(run.store.get(keys.judge_question(0, "anna"), SMALL_FILE).data)
    assert not {"answer", "origin", "seed", "index", "metadata"} & set(said)


async def test_a_judge_that_was_restarted_asks_and_records_nothing_twice(tmp_path: Path) -> None:
    run = make_experiment(tmp_path, "anna")
    async with judging(run):
        await until_asked(run, 0, "anna")
        await until_asked(run, 1, "anna")
        answer(run, 0, "anna")
        await until(lambda: rows(run))
    before = question(run, 0, "anna").asked_at
    answer(run, 1, "anna")
    async with judging(run) as judge:
        await until(lambda: judge.counts["recorded"])
    assert [row.round for row in rows(run)] == [0, 1]
    assert question(run, 0, "anna").asked_at == before
    assert judge.counts == {"recorded": 1}


async def test_it_ends_with_the_experiment_once_the_last_answers_are_in(tmp_path: Path) -> None:
    run = make_experiment(tmp_path, "anna")
    set_round(run, 9)
    codes: list[int] = []

    async def judge() -> None:
        codes.append(await make_judge(run).run())

    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(judge)
            await until_asked(run, 9, "anna")
            set_round(run, 10, finished=True)
            answer(run, 9, "anna")
    assert codes == [0]
    assert [row.round for row in rows(run)] == [9]


HOSTILE: dict[str, dict[str, Any]] = {
    "oversized": {"response": "x" * MOST_BYTES},
    "misplaced": {"peer_id": "ben"},
    "wrong_question": {"question_id": "of another round"},
}


@pytest.mark.parametrize("reason", [*HOSTILE, "not_a_file", "malformed"])
async def test_a_hostile_answer_is_refused_and_counted(tmp_path: Path, reason: str) -> None:
    run = make_experiment(tmp_path, "anna", "ben")
    async with judging(run) as judge:
        await until_asked(run, 0, "ben")
        await until_asked(run, 0, "anna")
        if reason in HOSTILE:
            answer(run, 0, "anna", **HOSTILE[reason])
        elif reason == "malformed":
            run.store.put(keys.judge_answer(0, "anna"), b"[1")
        else:
            answer(run, 0, "ben")
            theirs = Path(run.store.describe(keys.judge_answer(0, "ben")))
            theirs.with_name("anna.json").symlink_to(theirs)
        await until(lambda: judge.counts[f"refused_{reason}"])
    assert {row.node_id for row in rows(run)} <= {"ben"}


async def test_lesson_a_file_in_the_place_of_a_rounds_folder_blinded_the_judge(tmp_path: Path) -> None:
    run = make_experiment(tmp_path, "anna")
    run.store.put(f"{keys.JUDGE_QUESTIONS}/round_7", b"no folder")
    run.store.put(keys.judge_answers(0), b"no folder")
    async with judging(run):
        await until_asked(run, 1, "anna")
        answer(run, 1, "anna")
        await until(lambda: rows(run))
    assert [row.round for row in rows(run)] == [1]


async def test_a_row_that_could_not_be_written_is_written_later_and_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make_experiment(tmp_path, "anna")
    append, failures = run.store.append_records, ["before", "after"]

    def failing(key: str, records: Sequence[bytes], *, durable: bool) -> None:
        when = failures.pop(0) if failures else ""
        if when != "before":
            append(key, records, durable=durable)
        if when:
            raise StoreError(f"the disk went away {when} the write")

    monkeypatch.setattr(run.store, "append_records", failing)
    async with judging(run) as judge:
        await until_asked(run, 0, "anna")
        answer(run, 0, "anna")
        await until(lambda: judge.counts["recorded"])
    assert [row.round for row in rows(run)] == [0]
    assert not failures


def refusing_twice(monkeypatch: pytest.MonkeyPatch, run: Run, verb: str, below: str) -> list[int]:
    """Has the place refuse the first two calls of a verb for keys below a prefix; returns the refusals to come."""
    usual, left = getattr(run.store, verb), [1, 2]

    def failing(key: str, *args: Any) -> Any:
        if left and key.startswith(below):
            left.pop()
            raise StoreError("the disk went away")
        return usual(key, *args)

    monkeypatch.setattr(run.store, verb, failing)
    return left


@pytest.mark.parametrize(("verb", "below"), [("put", keys.JUDGE_QUESTIONS), ("get", keys.JUDGE_ANSWERS)])
async def test_what_could_not_be_asked_or_read_is_asked_and_scored_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: str, below: str
) -> None:
    run = make_experiment(tmp_path, "anna")
    left = refusing_twice(monkeypatch, run, verb, below)
    async with judging(run) as judge:
        await until_asked(run, 0, "anna")
        answer(run, 0, "anna")
        await until_asked(run, 1, "anna")
        await until(lambda: judge.counts["recorded"])
    assert [row.round for row in rows(run)] == [0]
    assert not left


async def test_it_waits_for_an_experiment_that_is_not_there_yet(tmp_path: Path) -> None:
    run = open_place(tmp_path).open("exp", writer=JUDGE)
    async with judging(run):
        make_experiment(tmp_path, "anna")
        await until_asked(run, 0, "anna")


async def test_an_experiment_file_that_makes_no_sense_ends_it(tmp_path: Path) -> None:
    run = make_experiment(tmp_path, "anna")
    run.store.put(keys.EXPERIMENT, b"{")
    with pytest.raises(ExperimentError, match="restore the file"):
        await make_judge(run).run()


async def test_one_write_of_the_clock_ends_no_judge(tmp_path: Path) -> None:
    run = make_experiment(tmp_path, "anna")
    looks: list[float] = []

    def monotonic() -> float:  # a clock that stands: nothing has stayed for any time
        looks.append(0.0)
        return 0.0

    judge = Judge(make_settings(Path(run.place)), run, FakeTaskSource(), ThreadBlocking(), monotonic=monotonic)
    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(judge.run)
            await until_asked(run, 0, "anna")
            await until_asked(run, 1, "anna")
            answer(run, 0, "anna")
            answer(run, 1, "anna")
            await until(lambda: len(rows(run)) == 2)
            set_round(run, 10, finished=True)
            seen = len(looks)
            await until(lambda: len(looks) > seen + 10)
            set_round(run, 2)
            await until_asked(run, 3, "anna")
            judge.stop(143)
