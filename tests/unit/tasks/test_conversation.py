"""Conversations, over the real scoring servers: what an environment says, and what a conversation is worth."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from swarm.config.own_code import OwnCode
from swarm.errors import ConfigError, ProtocolError
from swarm.tasks.python.template import CONVERSATION
from swarm.tasks.registry import Families, complete
from swarm.tasks.scoring_messages import Replied
from swarm.types import LONGEST_REPLY, Completion, Turn
from tests.unit.tasks.serving import Serving, serving, tagged

GUESS = CONVERSATION.format(name="mine")
ODD_REPLIES = f"""
turns = 4
def draw(rng): return "?", "!"
def score(question, answers): return 0.1 * len(answers)
def reply(question, answers):
    last = answers[-1]
    if last == "raise": 1 / 0
    if last == "number": return 7
    if last == "long": return "a" * {LONGEST_REPLY + 1}
    if last == "just": return "a" * {LONGEST_REPLY}
    if last == "empty": return " "
    if last == "surrogate": return chr(0xD800)
    while last == "hang": pass
    return None if last == "over" else f"{{len(answers)}} {{last}}"
"""


@contextmanager
def table(folder: Path, text: str) -> Iterator[Serving]:
    (folder / "mine.py").write_text(text)
    with serving(complete({"mine": {"python": OwnCode("mine.py")}}, folder)) as found:
        yield found


def replies(served: Serving, *conversations: Sequence[str]) -> Replied:
    return served.reply(served.question(), *(tagged(*one) for one in conversations))


def talk(*said: str) -> Completion:
    """Answers and replies in turn."""
    texts, replies = tagged(*said[::2]), said[1::2]
    return Completion(
        texts[-1], True, earlier=tuple(Turn(*pair) for pair in zip(texts[:-1], [True] * 16, replies, strict=False))
    )


HIGHER, LOWER = "It is higher. Guess again.", "It is lower. Guess again."


@pytest.fixture(scope="module")
def guessing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with table(tmp_path_factory.mktemp("guess"), GUESS) as found:
        yield found


def test_an_environment_answers_each_conversation_of_a_group_from_its_turns_alone(guessing: Serving) -> None:
    question = guessing.question()
    assert (question.answer, question.turns) == ("6", 3)
    found = replies(guessing, ["3"], ["9"], ["6"], ["?"], ["3", "9"], ["3"], ["3", "9", "5"])
    assert found.replies == (HIGHER, LOWER, None, "That is no whole number. Guess again.", LOWER, HIGHER, None)
    assert replies(guessing, ["3"]).replies == (HIGHER,)


def test_a_whole_conversation_earns_one_reward(guessing: Serving) -> None:
    score = guessing.score(
        guessing.question(),
        talk("6"),
        talk("3", HIGHER, "6"),
        talk("3", HIGHER, "9", LOWER, "6"),
        talk("3", HIGHER, "5"),
        "<answer>6</answer>",
        "no answer at all",
        Completion("no tag", True, earlier=(Turn("none", True, "That is no whole number. Guess again."),)),
    )
    assert score.rewards == pytest.approx((1.0, 0.8, 0.6, 0.3 * (1 - 1 / 9), 1.0, 0.0, 0.0))
    assert score.answered == (True,) * 5 + (False, False)
    assert (score.killed, score.errors) == (0, 0)


@pytest.mark.parametrize(
    ("conversation", "why"),
    [
        (talk("3", LOWER, "6"), "after turn 1 the environment says 'It is higher"),
        (talk("3", HIGHER + " Take 6.", "6"), "after turn 1"),
        (talk("3", HIGHER, "9", HIGHER, "6"), "after turn 2"),
        (talk("6", HIGHER, "6"), "after turn 1 the environment says None"),
        (talk("1", HIGHER, "2", HIGHER, "3", HIGHER, "6"), "the task has 3 turns of a model, got 4"),
    ],
)
def test_replies_that_are_not_the_environments_refuse_the_group(
    guessing: Serving, conversation: Completion, why: str
) -> None:
    with pytest.raises(ProtocolError, match="reply_mismatch") as refused:
        guessing.score(guessing.question(), talk("6"), conversation)
    assert why in str(refused.value)
    assert guessing.score(guessing.question(), talk("3", HIGHER, "6")).rewards == (0.8,)


def test_a_conversation_about_a_task_of_one_turn_is_refused(tmp_path: Path) -> None:
    single = 'def draw(rng): return "?", "!"\ndef score(question, answer): return float(answer == "!")\n'
    with table(tmp_path, single) as asking:
        question = asking.question()
        assert question.turns == 1
        assert replies(asking, ["!"]).replies == (None,)
        with pytest.raises(ProtocolError, match="reply_mismatch: the task has 1 turns of a model, got 2"):
            asking.score(question, talk("?", "no", "!"))


def test_what_is_no_reply_ends_its_conversation_alone(tmp_path: Path) -> None:
    with table(tmp_path, ODD_REPLIES) as odd:
        question = odd.question()
        said = ["raise", "number", "long", "empty", "surrogate", "over", "just", "x"]
        found = replies(odd, *([one] for one in said))
        assert found.replies == (*[None] * 6, "a" * LONGEST_REPLY, "1 x")
        assert (found.killed, found.errors) == (0, 5)
        with pytest.raises(ProtocolError, match="after turn 1 the environment says None, got '1 raise'"):
            odd.score(question, talk("raise", "1 raise", "x"))
        hung = replies(odd, ["x"], ["x", "hang"], ["x", "y"])
        assert hung == Replied(("1 x", None, "2 y"), killed=1)
        score = odd.score(question, talk("x", "1 x", "y"), talk("x", "1 x", "hang"))
        assert (score.rewards, score.killed) == ((0.2, 0.2), 0), "the last turn is replied to by nobody"
        with pytest.raises(ProtocolError, match="reply_mismatch") as refused:
            odd.score(question, talk("hang", "1 hang", "!"), talk("a", "1 b", "!"))
        assert refused.value.killed == 1, "also where the group is refused"


def test_a_task_may_read_whole_texts(tmp_path: Path) -> None:
    text = """
turns, reads = 2, "text"
def draw(rng): return "say a", "a"
def reply(question, texts): return None if texts[-1] == "a" else f"not {texts[-1]}"
def score(question, texts): return float(texts[-1] == "a")
"""
    with table(tmp_path, text) as reading:
        first = Turn("<answer>b</answer> or so", True, "not <answer>b</answer> or so")
        score = reading.score(
            reading.question(), "a", Completion("a", True, earlier=(first,)), "<answer>a</answer>", ""
        )
        assert score.rewards == (1.0, 1.0, 0.0, 0.0)
        assert score.answered == (True, True, True, False)


@pytest.mark.parametrize(
    ("changed", "by", "problem"),
    [
        ("turns = 3", "turns = 1", "a conversation has 2 to 16 turns and .*turns=1"),
        ("turns = 3", "", "a conversation has 2 to 16 turns"),
        ("turns = 3", "turns, reads = 3, 'words'", "reads='words'"),
        ("        return None\n", "        return 7\n", "a reply is text or None, got 7"),
        ("        return None\n", "        1 / 0\n", "reply failed: line [0-9]+: Zero"),
        ("    secret, largest =", "    1 / 0\n    secret, largest =", "score failed: line"),
    ],
)
def test_a_file_that_cannot_converse_is_refused_before_anything_starts(
    tmp_path: Path, changed: str, by: str, problem: str
) -> None:
    assert changed in GUESS
    (tmp_path / "mine.py").write_text(GUESS.replace(changed, by).replace("{turns}", "some"))
    tasks = complete({"mine": {"python": OwnCode("mine.py")}}, tmp_path)
    with pytest.raises(ConfigError, match=problem):
        Families((), tasks).prepare()
