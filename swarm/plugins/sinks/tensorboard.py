"""TensorBoard: a folder of event files for each node, `FOLDER/tensorboard/RUN/NODE`; one event for each row."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tensorboard.backend.event_processing.event_file_loader import LegacyEventFileLoader
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.event_file_writer import EventFileWriter

from swarm.plugins.sinks.base import BEFORE_ALL, SinkRun
from swarm.types import RoundKey

_STAGE = re.compile(r"stage_([0-9]+)/")


class TensorBoardSink:
    """A row is one record of a file: it is there whole, or not at all."""

    def __init__(self, of: SinkRun) -> None:
        self._folder = of.folder / "tensorboard" / of.name
        self._writers: dict[str, Any] = {}

    def written(self, node: str) -> RoundKey:
        return max((key for file in self._files(node) for key in _rows_of(file)), default=BEFORE_ALL)

    def _files(self, node: str) -> list[Path]:
        return sorted((self._folder / node).glob("events.out.tfevents.*"))

    def row(self, node: str, key: RoundKey, at: float, values: Mapping[str, float]) -> None:
        if node not in self._writers:
            self._writers[node] = EventFileWriter(str(self._folder / node))
        summary = Summary(value=[Summary.Value(tag=name, simple_value=value) for name, value in values.items()])
        self._writers[node].add_event(Event(wall_time=at, step=key.round, summary=summary))

    def flush(self) -> None:
        for writer in self._writers.values():
            writer.flush()

    def close(self) -> None:
        for writer in self._writers.values():
            writer.close()


def _rows_of(file: Path) -> Iterator[RoundKey]:
    """Yields the round and stage of each whole record of a file: a kill may have cut the last one."""
    for event in LegacyEventFileLoader(str(file)).Load():
        if event.summary.value:
            stage = _STAGE.match(event.summary.value[0].tag)
            yield RoundKey(event.step, int(stage[1]) if stage else 0)
