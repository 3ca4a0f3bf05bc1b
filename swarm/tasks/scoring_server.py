"""The process that makes questions and scores answers: imports the task families once, then serves each batch in a
bounded, sandboxed fork.

    stdin ──Setup──▶ prepare ──ServerReady──▶ stdout
          ──batch──▶ serve ──▶ fork ──▶ regenerate, compare all; score or reply to all ──▶ validate ──replies──▶ stdout

    waits for   a batch on stdin; end of file there (the node is gone) ends the server
    unblocks    one message of replies per batch

Run as `python -P -m swarm.tasks.scoring_server`. Where the child of a batch does not come to its end, what it
emitted counts and the node asks for the rest again, one by one. A lone group whose child does not come to its end is
scored answer by answer, each in a child with limits of its own, so that such an answer costs its author alone. So is
every group whose answers are executed, each in a child that judges it and one that runs it (swarm.tasks.trial).

All questions are made before any answer is read. From then on the child has seen hostile text, and only
`swarm.tasks.sandbox` stands between an answer and the rewards of the groups that follow in its batch. Between it
and the machine stand the limits of `swarm.tasks.bounded` and the bars of `swarm.tasks.bars` too, as many as there are.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import math
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from enum import Enum, auto
from typing import NamedTuple

import msgspec

from swarm.errors import ConfigError, ProtocolError
from swarm.tasks import bounded, sandbox
from swarm.tasks.bars import Bars, put_up
from swarm.tasks.bounded import LARGEST, Emit, Limits, read_frame, run_bounded, seconds_of_children, sender
from swarm.tasks.conversation import Conversation, Said
from swarm.tasks.registry import Families
from swarm.tasks.scoring_messages import (
    AskReplies,
    GroupScore,
    Made,
    MakeQuestion,
    RefusedRequest,
    Replied,
    Reply,
    Request,
    RequestBatch,
    ScoreAnswers,
    ServerReady,
    Setup,
    Unable,
    Unfinished,
)
from swarm.tasks.trial import Nursery, opened_nursery, run_trial
from swarm.types import Question

_encode = msgspec.msgpack.Encoder().encode
_decode_batch: Callable[[bytes], RequestBatch] = msgspec.msgpack.Decoder(RequestBatch).decode
_decode_setup: Callable[[bytes], Setup] = msgspec.msgpack.Decoder(Setup).decode
_decode_made: Callable[[bytes], list[Made | RefusedRequest]] = msgspec.msgpack.Decoder(
    list[Made | RefusedRequest]
).decode
Raw = float | str | bool | None
"""What a child finds of one answer, conversation or turn: see _raw_of."""
_decode_raw: Callable[[bytes], list[Raw]] = msgspec.msgpack.Decoder(list[Raw]).decode
BROKEN = (
    "no scoring child works on this machine: even an idle one failed or reached its limits. So no question can be made "
    "and no answer scored. The scorer.stderr events before this say why; `swarm doctor` looks for more"
)


def main() -> None:
    requests, replies = _take_over_standard_streams()
    messages, say = _messages(requests), sender(replies)
    setup = _decode_setup(next(messages))
    with contextlib.ExitStack() as open_:
        ready = _ready(setup, open_)
        if isinstance(ready, Unable):
            say(_encode(ready))
            return
        families, bars = ready.families, ready.bars
        say(_encode(ServerReady(families.versions, bars.up, families.conversing)))
        for message in messages:
            say(_encode(ready.serve(_decode_batch(message))))


def _ready(setup: Setup, open_: contextlib.ExitStack) -> ScoringServer | Unable:
    """Returns the server, ready to be asked; what is open for it stays so until `open_` ends."""
    try:
        families = Families(*setup.typed())
        nursery = open_.enter_context(opened_nursery()) if families.executing else None
        _prepare(families)
        bars = put_up()
        _require_bars(families, bars)
    except ConfigError as error:  # what only asking can tell
        return Unable(str(error))
    if not _children_work(bars):
        return Unable(BROKEN, machine=True)
    return ScoringServer(families, bars, nursery)


def _children_work(bars: Bars) -> bool:
    """Tells whether a child that has nothing to do comes to its end: if not, no question and no answer is to blame."""
    return bool(run_bounded(functools.partial(_trivial_job, bars), Limits()))


def _messages(requests: int) -> Iterator[bytes]:
    """Yields what the node says, until it is gone."""
    with contextlib.suppress(EOFError):
        while True:
            yield read_frame(requests, LARGEST)


def _take_over_standard_streams() -> tuple[int, int]:
    """Private copies of stdin and stdout; the public ones become /dev/null, since some tasks print."""
    requests, replies, null = os.dup(0), os.dup(1), os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    return requests, replies


def _prepare(families: Families) -> None:
    """Import and run everything once: after `sandbox.enter` a child can import nothing more."""
    warnings.simplefilter("ignore")  # showing one reads source files, which a child may not
    families.prepare()
    bounded.prepare()
    gc.collect()
    gc.freeze()  # children share these pages as long as nobody's collector writes to them


def _require_bars(families: Families, bars: Bars) -> None:
    """Refuses to execute answers unless the kernel's bars are up. Raises ConfigError."""
    missing = [bar for bar in bars.bars if bar.name in ("landlock", "seccomp") and not bar.up]
    if families.executing and missing:
        because = "; ".join(f"{bar.name}: {bar.detail}" for bar in missing)
        raise ConfigError(
            f"the tasks {', '.join(families.executing)} execute answers, which cannot be confined here ({because}); "
            "take Linux of 5.13 or newer with both, or leave these tasks out"
        )


class Bad(Enum):
    KILLED = auto()
    FAILED = auto()


SLOW = 0.1
"""Share of its limit. Answers that take more are as dear, several together, as one that has to be killed."""
Item = str | Conversation | tuple[Said, ...]
"""An answer or a conversation to be scored, or the turns that are to be replied to."""
Found = Raw | Bad


class ScoringServer(NamedTuple):
    families: Families
    bars: Bars
    nursery: Nursery | None
    """Where answers are executed, if a task of the run has that."""

    def serve(self, batch: RequestBatch) -> Sequence[Reply | Unfinished]:
        before = seconds_of_children()
        job = functools.partial(_batch_job, self.families, self.bars, batch.requests)
        frames = run_bounded(job, batch.limits)
        if not frames and seconds_of_children() - before < SLOW * batch.limits.cpu_s:
            frames = run_bounded(job, batch.limits)  # it was stopped, or this machine was: no question is to blame
        made = _decode_made(frames[0]) if frames else []  # written before any answer was looked at
        replies = self._finished(batch.requests, made, frames[1:])
        if len(batch.requests) == 1 and (not replies or isinstance(replies[0], Unfinished)):
            if not made and not _children_work(self.bars):  # the node starts a new server, or ends
                sys.exit(BROKEN)
            return [self._see_through(batch.requests[0], made, batch.limits)]
        return [*replies, *[Unfinished()] * (len(batch.requests) - len(replies))]

    def _finished(
        self, requests: Sequence[Request], made: Sequence[Made | RefusedRequest], raw: Sequence[bytes]
    ) -> list[Reply | Unfinished]:
        """Replies to the requests that the child served, up to the first that it did not."""
        replies: list[Reply | Unfinished] = []
        unread = iter(raw)
        for request, questions in zip(requests, made, strict=False):
            if isinstance(questions, RefusedRequest) or isinstance(request, MakeQuestion):
                replies.append(questions)
            elif self.families.executes(questions.question):
                replies.append(Unfinished())
            elif (found := _raw_results(next(unread, b""), len(request.distinct))) is not None:
                replies.append(_settled(request, questions, found))
            else:
                break
        return replies

    def _see_through(self, request: Request, made: Sequence[Made | RefusedRequest], limits: Limits) -> Reply:
        """Returns the reply to a lone request whose child did not come to its end."""
        if isinstance(request, MakeQuestion) or not made or isinstance(made[0], RefusedRequest):
            return RefusedRequest("generation_failed", "the question's generator failed or used up its limits")
        found: list[Found] = []
        slow = 0.0
        for item in request.distinct:
            raw, share = self._alone(made[0].question, item, limits)
            found.append(raw)
            slow += share if raw is not Bad.KILLED and share > SLOW else 0
        return _settled(request, made[0], found, slow)

    def _alone(self, question: Question, item: Item, limits: Limits) -> tuple[Found, float]:
        """Returns what came of an item that has a child of its own, and its share of the limit of processor time."""
        before, beside = seconds_of_children(), 0.0
        if isinstance(item, str) and self.families.executes(question):
            assert self.nursery is not None
            frames, beside = run_trial(self.families.trial(question, item), self.nursery, self.bars, limits)
        else:
            frames = run_bounded(functools.partial(_items_job, self.families, self.bars, question, [item]), limits)
        raw = _raw_results(frames[0] if frames else b"", 1)
        return Bad.KILLED if raw is None else raw[0], (seconds_of_children() - before + beside) / limits.cpu_s


def _settled(
    request: ScoreAnswers | AskReplies, made: Made, distinct_found: Sequence[Found], slow: float = 0.0
) -> Reply:
    """Puts together the reply to a request whose equal items were scored once; an answer that is None was shown to no
    scorer."""
    found = dict(zip(request.distinct, distinct_found, strict=True))
    if isinstance(request, AskReplies):
        said = [
            words if isinstance(words, str | Bad | None) else Bad.FAILED
            for words in map(found.get, request.conversations)
        ]
        replies = tuple(None if isinstance(words, Bad) else words for words in said)
        return Replied(replies, killed=said.count(Bad.KILLED), errors=said.count(Bad.FAILED))
    outcomes = [0.0 if answer is None else _checked(found[answer]) for answer in request.answers]
    killed = outcomes.count(Bad.KILLED)
    if differs := next((outcome for outcome in outcomes if isinstance(outcome, str)), None):
        return RefusedRequest("reply_mismatch", differs, killed, slow)
    rewards = tuple(outcome if isinstance(outcome, float) else 0.0 for outcome in outcomes)
    return GroupScore(made.question, rewards, (), killed=killed, errors=outcomes.count(Bad.FAILED), slow=slow)


def _checked(found: Found) -> float | str | Bad:
    """Returns the reward if it is a finite number in [0, 1], a text if replies differ, FAILED for anything else."""
    if isinstance(found, str | Bad):
        return found
    return found if isinstance(found, float) and math.isfinite(found) and 0.0 <= found <= 1.0 else Bad.FAILED


def _raw_results(payload: bytes, count: int) -> list[Raw] | None:
    """Decodes what the child found; None if it came to no end. It has read hostile text: nothing is assumed."""
    try:
        raw = _decode_raw(payload)
    except msgspec.MsgspecError:
        return None
    return raw if len(raw) == count else None


# ------------------------------------------------------------------------------------- in the child


def _batch_job(families: Families, bars: Bars, requests: Sequence[Request], emit: Emit) -> None:
    confinement = _confine(bars)
    made = [_make(families, request) for request in requests]
    emit(_encode(made))
    with confinement.scoring():
        for request, questions in zip(requests, made, strict=True):
            if isinstance(request, MakeQuestion) or isinstance(questions, RefusedRequest):
                continue
            if not families.executes(questions.question):
                _emit_results(families, questions.question, request.distinct, emit)


def _trivial_job(bars: Bars, emit: Emit) -> None:
    _confine(bars)
    emit(b"done")


def _confine(bars: Bars) -> sandbox.Confinement:
    bars.close_calls()
    return sandbox.enter()


def _make(families: Families, request: Request) -> Made | RefusedRequest:
    """Returns the questions that a request asks for, or is about."""
    try:
        if isinstance(request, MakeQuestion):
            return Made(families.make(request.question))
        question = families.regenerate(request.origin)
        claimed = request.claimed_prompt if isinstance(request, ScoreAnswers) else None
        if claimed not in (None, question.prompt):
            differs = f"expected the prompt of {question.origin}, {question.prompt!r}, got {claimed!r:.200}"
            return RefusedRequest("question_mismatch", differs)
    except ProtocolError as refusal:
        return RefusedRequest(refusal.reason, refusal.detail)
    return Made(question)


def _items_job(families: Families, bars: Bars, question: Question, items: Sequence[Item], emit: Emit) -> None:
    with _confine(bars).scoring():
        _emit_results(families, question, items, emit)


def _emit_results(families: Families, question: Question, items: Sequence[Item], emit: Emit) -> None:
    emit(_encode([_raw_of(families, question, item) for item in items]))


def _raw_of(families: Families, question: Question, item: Item) -> Raw:
    """Returns the family's reward of an answer or a conversation, or what is wrong with its replies, as a text; of
    turns the reply, None where the conversation is over. False where the family's code raises."""
    try:
        if isinstance(item, str):
            return families.score(question, item)
        if isinstance(item, tuple):
            return families.reply(question, item)
        return _differs(families, question, item) or families.score_conversation(question, item.answers)
    except Exception:  # noqa: BLE001 - the boundary: a task may raise anything at odd text, and it is counted
        return False


def _differs(families: Families, question: Question, conversation: Conversation) -> str:
    """Returns in what the replies of a conversation are not those of its environment; empty: they are."""
    for turn, claimed in enumerate(conversation.replies, 1):
        try:
            words = families.reply(question, conversation.answers[:turn])
        except Exception:  # noqa: BLE001 - as above: the conversation ends there
            words = None
        if words != claimed:
            return f"after turn {turn} the environment says {words!r:.200}, got {claimed!r:.200}"
    return ""


if __name__ == "__main__":
    main()
