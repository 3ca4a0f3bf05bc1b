"""A judge at work on a real folder, with nodes that exist only as files."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from swarm.errors import ExperimentError, StoreError
from swarm.judge import judge as judge_module
from swarm.judge.answers import MOST_BYTES
from swarm.judge.judge import Judge
from swarm.wire.codec import decode, encode
from swarm.wire.layout import Layout
from swarm.wire.messages import ExperimentFile, JudgeAnswer, JudgedRow, JudgeQuestion
from tests.unit.node.factories import FakeTaskSource, fake_rewards, make_peer, make_settings, make_state, put
from tests.unit.node.nodes import until

pytestmark = pytest.mark.anyio


def make_experiment(path: Path, *nodes: str) -> Layout:
    """An experiment at round 0 of 10 with these live workers."""
    layout = Layout(path, "exp")
    identity = {"seed": 42, "profile": "tiny", "tasks": None}
    file = ExperimentFile(experiment_name="exp", created_at=1.0, created_by="clock", identity=identity)
    put(layout.experiment_file, encode(file))
    for node in nodes:
        put(layout.peer_file(node), encode(make_peer(node, last_seen=time.time())))
    set_round(layout, 0)
    return layout


def set_round(layout: Layout, round_: int, **more: Any) -> None:
    put(layout.state_file, encode(make_state(round=round_, **more)))


def make_judge(layout: Layout) -> Judge:
    return Judge(make_settings(layout.path), layout, FakeTaskSource())


@asynccontextmanager
async def judging(layout: Layout) -> AsyncIterator[Judge]:
    """A judge in the background, stopped at the end."""
    judge = make_judge(layout)
    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(judge.run)
            yield judge
            judge.stop(143)


def question(layout: Layout, round_: int, node: str) -> JudgeQuestion:
    return decode(layout.judge_question_file(round_, node).read_bytes(), JudgeQuestion, "question")


def answer(layout: Layout, round_: int, node: str, **more: Any) -> JudgeAnswer:
    """Be the node."""
    fields: dict[str, Any] = {
        "peer_id": node,
        "round": round_,
        "question_id": question(layout, round_, node).question_id,
        "response": f"<answer>{node} {round_}</answer>",
        "answered_at": 1.0,
        **more,
    }
    said = JudgeAnswer(**fields)
    put(layout.judge_answer_file(round_, node), encode(said))
    return said


def rows(layout: Layout) -> list[JudgedRow]:
    lines = layout.judge_file.read_bytes().splitlines() if layout.judge_file.exists() else []
    return [msgspec.json.decode(line, type=JudgedRow) for line in lines]


async def test_answers_become_rows(tmp_path: Path) -> None:
    layout = make_experiment(tmp_path, "anna", "ben")
    async with judging(layout):
        await until(layout.judge_question_file(0, "anna").exists)
        said = answer(layout, 0, "anna")
        await until(lambda: rows(layout))
    (row,) = rows(layout)
    asked = question(layout, 0, "anna")
    (reward,) = fake_rewards([said.response])
    assert (row.node_id, row.round, row.task, row.profile) == ("anna", 0, asked.task, "tiny")
    assert (row.reward, row.full_answer, row.answered) == (reward, reward == 1.0, True)
    assert row.question_id == asked.question_id


async def test_a_question_file_says_nothing_from_which_its_answer_could_be_made(tmp_path: Path) -> None:
    layout = make_experiment(tmp_path, "anna")
    async with judging(layout):
        await until(layout.judge_question_file(0, "anna").exists)
    said = msgspec.json.decode(layout.judge_question_file(0, "anna").read_bytes())
    assert not {"answer", "origin", "seed", "index", "metadata"} & set(said)


async def test_a_judge_that_was_restarted_asks_and_records_nothing_twice(tmp_path: Path) -> None:
    layout = make_experiment(tmp_path, "anna")
    async with judging(layout):
        await until(layout.judge_question_file(0, "anna").exists)
        await until(layout.judge_question_file(1, "anna").exists)
        answer(layout, 0, "anna")
        await until(lambda: rows(layout))
    before = question(layout, 0, "anna").asked_at
    answer(layout, 1, "anna")
    async with judging(layout) as judge:
        await until(lambda: judge.counts["recorded"])
    assert [row.round for row in rows(layout)] == [0, 1]
    assert question(layout, 0, "anna").asked_at == before
    assert judge.counts == {"recorded": 1}


async def test_a_late_answer_counts_once_and_a_missing_one_is_counted(tmp_path: Path) -> None:
    layout = make_experiment(tmp_path, "anna", "ben")
    async with judging(layout) as judge:
        await until(layout.judge_question_file(0, "ben").exists)
        set_round(layout, 3)
        await until(lambda: judge.counts["overdue"] >= 2)
        answer(layout, 0, "ben")
        await until(lambda: rows(layout))
    assert [(row.round, row.node_id) for row in rows(layout)] == [(0, "ben")]


async def test_it_ends_with_the_experiment_once_the_last_answers_are_in(tmp_path: Path) -> None:
    layout = make_experiment(tmp_path, "anna")
    set_round(layout, 9)
    codes: list[int] = []

    async def run() -> None:
        codes.append(await make_judge(layout).run())

    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run)
            await until(layout.judge_question_file(9, "anna").exists)
            set_round(layout, 10, finished=True)
            answer(layout, 9, "anna")
    assert codes == [0]
    assert [row.round for row in rows(layout)] == [9]


HOSTILE: dict[str, dict[str, Any]] = {
    "oversized": {"response": "x" * MOST_BYTES},
    "misplaced": {"peer_id": "ben"},
    "wrong_question": {"question_id": "of another round"},
}


@pytest.mark.parametrize("reason", [*HOSTILE, "not_a_file", "malformed"])
async def test_a_hostile_answer_is_refused_and_counted(tmp_path: Path, reason: str) -> None:
    layout = make_experiment(tmp_path, "anna", "ben")
    async with judging(layout) as judge:
        await until(layout.judge_question_file(0, "ben").exists)
        await until(layout.judge_question_file(0, "anna").exists)
        file = layout.judge_answer_file(0, "anna")
        if reason in HOSTILE:
            answer(layout, 0, "anna", **HOSTILE[reason])
        elif reason == "malformed":
            put(file, b"[1")
        else:
            answer(layout, 0, "ben")
            file.symlink_to(layout.judge_answer_file(0, "ben"))
        await until(lambda: judge.counts[f"refused_{reason}"])
    assert {row.node_id for row in rows(layout)} <= {"ben"}


async def test_lesson_a_file_in_the_place_of_a_rounds_folder_blinded_the_judge(tmp_path: Path) -> None:
    layout = make_experiment(tmp_path, "anna")
    put(layout.judge_questions_of(7), b"no folder")
    put(layout.judge_answers_of(0), b"no folder")
    async with judging(layout):
        await until(layout.judge_question_file(1, "anna").exists)
        answer(layout, 1, "anna")
        await until(lambda: rows(layout))
    assert [row.round for row in rows(layout)] == [1]


async def test_a_row_that_could_not_be_written_is_written_later_and_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    layout = make_experiment(tmp_path, "anna")
    append, failures = judge_module.append_json_line, ["before", "after"]

    def failing(path: Path, line: bytes, *, fsync: bool) -> None:
        when = failures.pop(0) if failures else ""
        if when != "before":
            append(path, line, fsync=fsync)
        if when:
            raise StoreError(f"the disk went away {when} the write")

    monkeypatch.setattr(judge_module, "append_json_line", failing)
    async with judging(layout) as judge:
        await until(layout.judge_question_file(0, "anna").exists)
        answer(layout, 0, "anna")
        await until(lambda: judge.counts["recorded"])
    assert [row.round for row in rows(layout)] == [0]
    assert not failures


async def test_a_question_that_could_not_be_written_is_asked_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    layout = make_experiment(tmp_path, "anna")
    publish, failures = judge_module.publish, [1, 2]

    def failing(*arguments: Any) -> None:
        if failures:
            failures.pop()
            raise StoreError("no space left")
        publish(*arguments)

    monkeypatch.setattr(judge_module, "publish", failing)
    async with judging(layout):
        await until(layout.judge_question_file(0, "anna").exists)
        await until(layout.judge_question_file(1, "anna").exists)


async def test_it_waits_for_an_experiment_that_is_not_there_yet(tmp_path: Path) -> None:
    layout = Layout(tmp_path, "exp")
    async with judging(layout):
        make_experiment(tmp_path, "anna")
        await until(layout.judge_question_file(0, "anna").exists)


async def test_an_experiment_file_that_makes_no_sense_ends_it(tmp_path: Path) -> None:
    layout = make_experiment(tmp_path, "anna")
    put(layout.experiment_file, b"{")
    with pytest.raises(ExperimentError, match="restore the file"):
        await make_judge(layout).run()
