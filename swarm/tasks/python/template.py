"""Holds what `swarm task new` writes: a task that works as it is, and says what may be changed."""

from __future__ import annotations

SETTINGS = """\
[tasks.{name}]
python = "{name}.py"
largest = 9"""
"""Lines of a settings file."""

SOURCE = '''\
"""The task {name}: questions and rewards of one's own. See docs/tasks.md.

Scoring servers import this file, once; what it needs is imported and read here, at the top. `draw` and `score` then run
in child processes that may open, import and connect to nothing, and have a second for the answers to a question.
"""

from __future__ import annotations


def draw(rng, largest=9):
    """The next question and its answer.

    rng is a random.Random: whatever is random comes from it, so that every node draws the same question from the same
    seed. The other parameters are those of [tasks.{name}] in the settings file.
    """
    a, b = rng.randint(1, largest), rng.randint(1, largest)
    question = f"What is {{a}} times {{b}}?"
    answer = str(a * b)
    metadata = {{"factors": [a, b]}}  # whatever score needs; may be left out
    return question, answer, metadata


def score(question, answer):
    """What an answer is worth, from 0 to 1.

    question has prompt, answer and metadata, as draw gave them. answer is the text between <answer> and </answer>,
    which anybody may have written: whatever is raised here is a reward of 0.
    """
    try:
        value = int(answer)
    except ValueError:
        return 0.0
    return 1.0 if value == int(question.answer) else 0.0
'''

CONVERSATION = '''\
"""The task {name}: a number to be guessed in some turns, with a word after each. See docs/tasks.md.

Scoring servers import this file, once; what it needs is imported and read here, at the top. `draw`, `reply` and `score`
then run in child processes that may open, import and connect to nothing, and have a second for a question's answers.
"""

from __future__ import annotations

turns = 3
"""Of the model, at most."""


def draw(rng, largest=9):
    """The next question and its answer.

    rng is a random.Random: whatever is random comes from it, so that every node draws the same question from the same
    seed. The other parameters are those of [tasks.{name}] in the settings file.
    """
    secret = rng.randint(1, largest)
    question = f"I think of a whole number from 1 to {{largest}}. Which one is it? You have {{turns}} guesses."
    return question, str(secret), {{"largest": largest}}


def reply(question, answers):
    """What is said to the model after its latest turn; None: the conversation is over.

    answers are those of all turns so far, each the text between <answer> and </answer>, None where there was none. What
    is said follows from question and answers alone: every node that reads the conversation asks for it anew.
    """
    guess = _number(answers[-1])
    if guess is None:
        return "That is no whole number. Guess again."
    if guess == int(question.answer):
        return None
    return "It is higher. Guess again." if guess < int(question.answer) else "It is lower. Guess again."


def score(question, answers):
    """What the whole conversation is worth, from 0 to 1.

    There may be fewer turns than `turns`, whatever was replied: a conversation can end before. Here a first guess that
    hits earns 1, a later one less, and a near miss a little.
    """
    secret, largest = int(question.answer), question.metadata["largest"]
    guesses = [_number(answer) for answer in answers]
    if secret in guesses:
        return 1.0 - 0.2 * guesses.index(secret)
    if guesses[-1] is None:
        return 0.0
    return 0.3 * max(0.0, 1.0 - abs(guesses[-1] - secret) / largest)


def _number(answer):
    """The guess; None: it is none."""
    try:
        return int(answer)
    except (TypeError, ValueError):
        return None
'''
