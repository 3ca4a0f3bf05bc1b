"""Tasks of the user's own, in a Python file: it draws questions and scores answers.

    def draw(rng, **parameters): ...     the next question and its answer
    def score(question, answer): ...     what an answer to it is worth

    turns = 3                            where the task replies to the model: its most turns, 2 to 16
    def reply(question, answers): ...    the words after these turns of the model; None: it is over
    def score(question, answers): ...    what the whole conversation is worth
    reads = "text"                       all of a turn's text instead of what stands between the answer tags

The file is one of the user's own, known to all nodes of a run by its SHA-256. Scoring servers alone import it, once,
before their first question. Then `draw` and `score` run in child processes that are bounded (a second of processor
time for the answers of a group) and may open, import, execute and connect to nothing: what they need is imported at the
file's top, and read there.

`draw` returns text, its answer, and, if wanted, metadata that JSON can hold: a function of `rng`, a random.Random that
the question's origin seeds, and of the parameters. `score` returns a number in [0, 1] for the stripped text of 2,000
characters at most that whoever wrote between the tags; what it raises is a reward of 0. `reply` is called anew after
each turn, by every node that reads the conversation, and follows from its arguments alone; an answer is None for a
turn without one.

family       what nodes know of it: names, profiles, and how a settings file's table is completed
questions    the file, imported in a scoring server; make and score in its children
template     what `swarm task new` writes
"""

FAMILY = "python"
VERSION = "1"
"""Version of how a file is used."""
FILE, DIGEST = "python", "sha256"
"""Keys of a task's table in a settings file."""
