"""Nodes that share a process have logs of their own."""

# ruff: noqa: T201 - what is printed is tested here

from __future__ import annotations

import io
import json
import logging
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio import to_thread

from swarm.errors import StoreError
from swarm.logs import configure_logging, get_logger, logging_as, record_failure
from tests.unit.log_files import log_in

log = get_logger("swarm.test")


class Logs:
    """The readers of a process of two nodes."""

    def __init__(self, folder: Path) -> None:
        self.files = [log_in(folder, node, f"{node}/events", f"{node}/stdout") for node in "ab"]
        self.folder = folder
        self.terminal = io.StringIO()

    def configure(self, level: str = "info") -> ExitStack:
        return configure_logging(self.files, level=level, stream=self.terminal)

    def events(self, node: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.folder / node / "events").read_text().splitlines()]

    def names(self, node: str) -> list[str]:
        return [event["event"] for event in self.events(node)]

    def stdout(self, node: str) -> list[str]:
        return (self.folder / node / "stdout").read_text().splitlines()


@pytest.fixture
def logs(tmp_path: Path) -> Logs:
    return Logs(tmp_path)


def test_an_event_of_a_node_is_in_its_files_and_in_nobody_elses(logs: Logs) -> None:
    with logs.configure():
        with logging_as("a"):
            log.info("of.a")
            logging.getLogger("some.library").warning("within a")
        with logging_as("b"):
            log.info("of.b")
    assert logs.names("a") == ["of.a", "within a"]
    assert logs.names("b") == ["of.b"]
    assert {event["node_id"] for event in logs.events("a")} == {"a"}
    assert ["of.a" in line for line in logs.stdout("a")] == [True, False]
    assert ["of.b" in line for line in logs.stdout("b")] == [True]


def test_what_belongs_to_no_node_is_in_the_files_of_all_under_the_names_of_each(logs: Logs) -> None:
    with logs.configure():
        log.warning("scorer.restart")
    for node in "ab":
        assert [(event["event"], event["node_id"]) for event in logs.events(node)] == [("scorer.restart", node)]
    assert logs.terminal.getvalue().count("scorer.restart") == 1


def test_the_terminal_says_whose_an_event_is(logs: Logs) -> None:
    with logs.configure():
        with logging_as("b"):
            log.info("of.b", round=3)
        log.info("of.nobody")
    first, second = logs.terminal.getvalue().splitlines()
    assert "node_id=b round=3" in first
    assert "node_id" not in second


def test_tasks_and_threads_inherit_the_node_that_started_them(logs: Logs) -> None:
    async def work(node: str) -> None:
        with logging_as(node):
            await to_thread.run_sync(log.info, "thread")
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(speak)

    async def speak() -> None:
        await anyio.lowlevel.checkpoint()
        log.info("task")

    async def main() -> None:
        async with anyio.create_task_group() as tasks:
            for node in "ab":
                tasks.start_soon(work, node)
        log.info("end")

    with logs.configure():
        anyio.run(main)
    assert logs.names("a") == logs.names("b") == ["thread", "task", "end"]


def test_prints_go_to_the_stdout_log_of_the_node_that_prints(logs: Logs, capsys: pytest.CaptureFixture[str]) -> None:
    with logs.configure():
        with logging_as("a"):
            print("from a")
        with logging_as("b"):
            print("from", "b", file=sys.stderr)
        print("from nobody")
    assert logs.stdout("a") == ["from a", "from nobody"]
    assert logs.stdout("b") == ["from b", "from nobody"]
    assert capsys.readouterr() == ("from a\nfrom nobody\n", "from b\n")


def test_the_failure_of_a_node_is_in_its_log_alone(logs: Logs) -> None:
    with logs.configure(), logging_as("a"):
        record_failure(StoreError("gone"))
        try:
            raise ValueError("boo")
        except ValueError as error:
            record_failure(error)
    failed, crashed = logs.events("a")
    assert (failed["event"], failed["error"], failed["kind"]) == ("process.failed", "gone", "StoreError")
    assert crashed["event"] == "process.crashed"
    assert crashed["exception"].endswith("ValueError: boo")
    assert logs.events("b") == []
