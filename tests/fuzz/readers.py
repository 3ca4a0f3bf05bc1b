"""How does a node read each kind of file that a stranger may write? The very functions that it uses, down to admission.

Each reader takes an experiment's layout, in which the file lies where a node looks for it, and returns the reason of
the refusal, or "" for what it took. Whatever else comes out of it is a crash.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from swarm.config import Settings
from swarm.config.settings import LimitsTable
from swarm.errors import CheckpointError, ProtocolError, StoreError
from swarm.judge.judge import read_answer
from swarm.judge.judge_machine import Slot
from swarm.logs import get_logger
from swarm.node.sharing.admission import Admission, AssignedQuestions
from swarm.node.sharing.reading import PeersFiles
from swarm.node.worker.checkpoints import STATE, read_state
from swarm.node.worker.round_files import read_completions
from swarm.records.files import read_clock, read_exam, read_form, read_peers
from swarm.records.growing import lines_of, parse_line
from swarm.records.rows import read_rows
from swarm.records.stream import EventStream, WantedEvents
from swarm.store.place import open_place
from swarm.store.run import Run
from swarm.tasks.gym.profiles import SAPO_TASKS
from swarm.tasks.universe import Universe
from swarm.types import RoundKey
from swarm.views.events import render as render_events
from swarm.views.status import StatusReader
from swarm.views.status import render as render_status
from swarm.wire import keys
from swarm.wire.judge_messages import JudgedRow, JudgeQuestion
from swarm.wire.messages import ExperimentFile, RewardFile, WinnersFile
from tests.layout import Layout
from tests.unit.node.intakes import AnyQuestions

logger = get_logger(__name__)

PEER = "anna"
KEY = RoundKey(17)
LARGEST = 8 * 2**20
"""The default of SWARM_MAX_FILE_BYTES."""


class TerminalError(Exception):
    """Text of a stranger was about to reach a terminal as it is."""


@dataclass(frozen=True)
class Reader:
    """One kind of file."""

    golden: str
    """A good one of its kind, in tests/golden; none where there is none."""
    path: Callable[[Layout], Path]
    read: Callable[[Layout], str]


def _rollouts(layout: Layout, drawn: type[AssignedQuestions] = AssignedQuestions) -> str:
    """As the intake does; the reason of the first group's refusal stands for all."""
    settings = Settings(importance_cap=2.0, limits=LimitsTable(max_file_bytes=LARGEST))
    admission = Admission(settings, drawn(42, Universe.of(SAPO_TASKS, "tiny-2")))
    file = PeersFiles(settings, open_place(layout.path).open(layout.experiment)).fetch(KEY, PEER).file
    if file is None:
        raise FileNotFoundError
    if isinstance(file, ProtocolError):
        raise file
    admission.check_size(file.groups)
    for refusal in filter(None, admission.refusals(PEER, KEY, file.groups)):
        raise refusal
    return ""


def _run(layout: Layout) -> Run:
    return open_place(layout.path).open(layout.experiment, writer="fuzz")


def _state(layout: Layout) -> str:
    state, problem = read_clock(layout.run)
    _show(render_status(StatusReader(_run(layout), liveness_timeout=60.0).read(wall=1.8e9)))
    return _reason(problem) if problem else ("" if state else "absent")


def _peer(layout: Layout) -> str:
    """A registration that cannot be read is nobody's; one that can is shown by `swarm status`."""
    peers = read_peers(layout.run)
    _show(render_status(StatusReader(_run(layout), liveness_timeout=60.0).read(wall=1.8e9)))
    return "" if peers else "malformed"


def _judge_answer(layout: Layout) -> str:
    read_answer(_run(layout), Slot(KEY.round, PEER), "6cd8bc1cb01d30b8")
    return ""


def _metrics(layout: Layout) -> str:
    found = read_rows(layout.run, PEER)
    _show(render_status(StatusReader(_run(layout), liveness_timeout=60.0).read(wall=1.8e9)))
    _show_events(layout, metrics=True)
    return "junk" if found.junk or not found.rows else ""


def _events(layout: Layout) -> str:
    return "" if _show_events(layout, metrics=False) else "empty"


def _judged(layout: Layout) -> str:
    rows = [parse_line(line, JudgedRow) for line in lines_of(layout.run.store, keys.JUDGED)]
    return "junk" if not rows or None in rows else ""


def _exam(layout: Layout) -> str:
    read_exam(layout.run)
    return ""


def _node_state(layout: Layout) -> str:
    """As out of an opened bundle, which makes a folder of its own (nothing that a reading may do here) and in which
    there are regular files alone."""
    folder = layout.checkpoint(18, PEER)
    if (folder / STATE).is_symlink() or not (folder / STATE).is_file():
        return "damaged"
    try:
        read_state(f"{folder}/{STATE}", str(folder), PEER, 18)
    except CheckpointError:
        return "damaged"
    return ""


def _completions(layout: Layout) -> str:
    read_completions(_run(layout), PEER, KEY)
    return ""


def _show_events(layout: Layout, *, metrics: bool) -> int:
    lines = list(render_events(EventStream(_run(layout), WantedEvents(metrics=metrics)).read()))
    _show("\n".join(lines))
    return len(lines)


def _show(text: str) -> None:
    """What `swarm status` and `swarm logs` write: nothing in it may be obeyed by a terminal."""
    if obeyed := {character for character in text if character != "\n" and not character.isprintable()}:
        raise TerminalError(f"a terminal would get {sorted(obeyed)!r}")
    text.encode()


def _reason(message: str) -> str:
    return message.partition(":")[0] or "?"


def _form(form: type, path: Callable[[Layout], Path]) -> Callable[[Layout], str]:
    def read(layout: Layout) -> str:
        return "" if read_form(layout.run.store, layout.key(path(layout)), form) else "absent"

    return read


def _reader(golden: str, form: type, path: Callable[[Layout], Path]) -> Reader:
    return Reader(golden, path, _form(form, path))


def _completions_path(layout: Layout) -> Path:
    return layout.root / keys.completions(KEY.round, PEER)


def _rollout_path(layout: Layout) -> Path:
    return layout.rollout_file(KEY, PEER)


READERS: dict[str, Reader] = {
    "rollouts": Reader("rollouts_with_logprobs.json", _rollout_path, _rollouts),
    "conversations": Reader("rollouts_with_turns.json", _rollout_path, partial(_rollouts, drawn=AnyQuestions)),
    "conversed": Reader("completions_with_turns.json", _completions_path, _completions),
    "completions": Reader("completions.json", _completions_path, _completions),
    "state": Reader("state.json", lambda layout: layout.state_file, _state),
    "peer": Reader("peer.json", lambda layout: layout.peer_file(PEER), _peer),
    "reward": _reader("reward.json", RewardFile, lambda layout: layout.reward_file(KEY, PEER)),
    "winners": _reader("winners.json", WinnersFile, lambda layout: layout.winners_file(KEY.round, PEER)),
    "experiment": _reader("experiment.json", ExperimentFile, lambda layout: layout.experiment_file),
    "judge_question": _reader(
        "judge_question.json", JudgeQuestion, lambda layout: layout.judge_question_file(KEY.round, PEER)
    ),
    "judge_answer": Reader(
        "judge_answer.json", lambda layout: layout.judge_answer_file(KEY.round, PEER), _judge_answer
    ),
    "node_state": Reader("node_state.json", lambda layout: layout.checkpoint(18, PEER) / "node.json", _node_state),
    "metrics": Reader("metrics.jsonl", lambda layout: layout.metrics_file(PEER), _metrics),
    "events": Reader("", lambda layout: layout.events_file(PEER), _events),
    "judged": Reader("judge.jsonl", lambda layout: layout.judge_file, _judged),
    "exam": Reader("", lambda layout: layout.exam_file, _exam),
}


def read(kind: str, layout: Layout) -> str:
    """The reason of the refusal, "" where the file was taken."""
    try:
        return READERS[kind].read(layout)
    except FileNotFoundError:
        return "absent"
    except StoreError:
        return "unlistable"
    except ProtocolError as error:
        logger.warning("file.refused", kind=kind, reason=error.reason, detail=error.detail)
        return error.reason
