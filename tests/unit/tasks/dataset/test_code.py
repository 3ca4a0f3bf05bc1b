"""Answers that are code: what passes its tests earns its reward, and nothing else does, whatever it does."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.errors import ConfigError
from swarm.tasks import scoring_server
from swarm.tasks.bars import Bar, Bars
from swarm.tasks.bounded import Limits
from swarm.tasks.dataset.scorers import ScorerRow, unit_tests
from swarm.tasks.dataset.scorers import plain_values as plain
from swarm.tasks.registry import Families, complete
from swarm.tasks.scoring import GroupScore
from tests.patience import PATIENCE
from tests.unit.tasks.dataset.making import json_lines, sums
from tests.unit.tasks.serving import serving, tagged

MBPP = {"text": "Write first(s).", "test_list": ['assert first("abc") == "a"', 'assert first("xyz") == "x"']}
HUMAN_EVAL = {
    "prompt": "from typing import List\n\ndef total(numbers: List[int]) -> int:\n    '''Their sum.'''\n",
    "test": "def check(candidate):\n    assert candidate([]) == 0\n    for n in (1, 2, 3):\n"
    "        assert abs(candidate([n, n]) - 2 * n) < 1e-6\n",
    "entry_point": "total",
}
OF_MBPP = {"dataset": "q.jsonl", "question": "text", "answer": "test_list", "scorer": "tests"}
OF_HUMAN_EVAL = {
    "dataset": "q.jsonl",
    "question": "prompt",
    "answer": "test",
    "scorer": "tests",
    "entry_point": "entry_point",
    "prefix": "prompt",
}
RIGHT = "def first(s):\n    return s[0]"

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs the bars of Linux")


LOOP = {
    **HUMAN_EVAL,
    "test": "def check(candidate):\n    for n in range(50):\n"
    "        found = candidate([n])\n        assert found == n\n",
}
ITERATIONS = {
    "all": (["assert all(map(first, ['ab', 'cd']))"], RIGHT),
    "zip": (["for got, want in zip(map(first, ['ab', 'cd']), 'ac'):\n    assert got == want"], RIGHT),
    "any": (["assert not any(map(first, ['', '']))"], "def first(s): return s"),
    "iter": (["left = iter('ab')\nassert not any(iter(lambda: first(next(left, '')), ''))"], "def first(s): return ''"),
}
TASKS: dict[str, tuple[Mapping[str, Any], Mapping[str, Any]]] = {
    "mbpp": (MBPP, OF_MBPP),
    "human_eval": (HUMAN_EVAL, OF_HUMAN_EVAL),
    "partial": (HUMAN_EVAL, {**OF_HUMAN_EVAL, "partial": True}),
    "loop": (LOOP, OF_HUMAN_EVAL),
    "partial_loop": (LOOP, {**OF_HUMAN_EVAL, "partial": True}),
    **{name: ({**MBPP, "test_list": tests}, OF_MBPP) for name, (tests, _) in ITERATIONS.items()},
}
"""Name -> row and task."""
Score = Callable[[str, Sequence[str]], GroupScore]


@contextmanager
def scoring(folder: Path, wall_s: float, tasks: Sequence[str] = tuple(TASKS)) -> Iterator[Score]:
    """Groups' scores by a real server of these tasks."""
    for name in tasks:
        json_lines(folder / f"{name}.jsonl", [TASKS[name][0]])
    defined = complete({name: {**TASKS[name][1], "dataset": f"{name}.jsonl"} for name in tasks}, folder)
    with serving(defined, limits=Limits(wall_s=wall_s)) as served:
        yield lambda name, answers: served.score(served.question(name), *tagged(*answers))


@pytest.fixture(scope="module")
def score(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Score]:
    with scoring(tmp_path_factory.mktemp("code"), 10 * PATIENCE) as found:
        yield found


def test_what_passes_all_tests_earns_one_and_what_does_not_earns_nothing(score: Score) -> None:
    answers = {
        RIGHT: 1,
        f"```python\n{RIGHT}\n```": 1,
        "import re, math\nfrom collections import namedtuple\nfirst = lambda s: re.match('.', s)[0]": 1,
        "print('noise' * 100_000)\ndef first(s):\n    print(s)\n    return s[:1]": 1,
        "class A:\n    def __init__(self, s): self.s = s\ndef first(s): return A(s).s[0]": 1,
        "import functools, hashlib, zlib\nclass A:\n    @functools.cached_property\n    def b(self):\n"
        "        return hashlib.sha256(zlib.compress(bytes(10**6))).hexdigest()\n@functools.lru_cache\n"
        "def first(s): return s[len(A().b) - 64]": 1,
        "import calendar, difflib, statistics\ndef first(s): return s[statistics.mode([0])]": 1,
        "def first(s): return s": 0,
        "def first(s): return 'a'": 0,
        "def other(s): return s[0]": 0,
        "def first(s): raise ValueError": 0,
        "def first(s:": 0,
        "": 0,
    }
    found = score("mbpp", list(answers))
    assert found.rewards == tuple(answers.values())
    assert found.killed == 0


def test_a_check_function_is_called_with_the_entry_point_and_the_prompt_stands_before_the_answer(score: Score) -> None:
    answers = ["def total(numbers: List[int]): return sum(numbers)", "return sum(numbers)", "def total(n): return 0"]
    assert score("human_eval", answers).rewards == (1, 0, 0)
    total = [
        f"def total(numbers): {body}" for body in ("return sum(numbers)", "return 0", "return 2", "raise KeyError")
    ]
    assert score("partial", total).rewards == (1, 0.25, 0.25, 0), "in part: the share of the assertions that hold"


@pytest.mark.parametrize("task", ITERATIONS)
def test_an_answer_ends_no_iteration_of_the_tests(score: Score, task: str) -> None:
    ends = ["def first(s): raise StopIteration", "def first(s):\n    if s == 'ab': return 'a'\n    raise StopIteration"]
    rewards = score(task, [*ends, RIGHT, ITERATIONS[task][1]]).rewards
    assert rewards[:2] == (0.0, 0.0)
    assert 1.0 in rewards[2:]


@pytest.mark.parametrize(("task", "share"), [("partial_loop", 0.02), ("loop", 0.0)])
def test_an_answer_that_ends_the_tests_behind_the_first_assertion_earns_nothing(
    score: Score, task: str, share: float
) -> None:
    answers = [
        "def total(numbers):\n    if numbers[0] == 0: return 0\n    raise ValueError",
        "def total(numbers): return 0",
        "def total(numbers): return sum(numbers)",
    ]
    assert score(task, answers).rewards == (0.0, share, 1.0)


PLANTED = str(Path(tempfile.gettempdir()) / f"planted-{os.getpid()}")
_FRAMES = """
import struct, sys
frame = b"\\x91\\xcb" + struct.pack(">d", 1.0)
frame = struct.pack(">I", len(frame)) + frame
"""
HOSTILE = {
    "a verdict written into every descriptor": _FRAMES
    + "import os\nfor fd in range(64):\n    try: os.write(fd, frame * 50)\n    except OSError: pass\nos._exit(0)",
    "a verdict in place of values": _FRAMES + "import os\ndef first(s):\n    os.write(3, frame)\n    os._exit(0)",
    "an object that is equal to all": "class E(str):\n    def __eq__(self, o): return True\n    __hash__ = None\n"
    "def first(s): return E('?')",
    "a comparison that is patched": "import builtins, operator\nbuiltins.AssertionError = type('A', (), {})\n"
    "operator.eq = lambda a, b: True\ndef first(s): return '?'",
    "the judge's own code, patched": "import sys\n"
    "from swarm.tasks.dataset.scorers import plain_values as plain, unit_tests\n"
    "unit_tests.verdict = lambda *a: 1.0\nplain.unpack = lambda m: 'a'\ndef first(s): return '?'",
    "the end of the process at once": "import os; os._exit(0)",
    "an exit": "raise SystemExit(0)",
    "an exit in a call": "def first(s): raise SystemExit(0)",
    "an exit handler": "import atexit\ndef first(s): return '?'",
    "a fork bomb": "import os\nwhile True: os.fork()",
    "threads": "import threading\nfor i in range(9): threading.Thread(target=lambda: max(iter(int, 1))).start()",
    "a loop": "while True: pass",
    "a loop that swallows all": "while True:\n    try:\n        while True: pass\n    except BaseException: pass",
    "a loop in a call": "def first(s):\n    while True: pass",
    "memory": "first = ['x' * 2**24 for _ in range(10_000)]",
    "a value of a gigabyte": "def first(s): return 'a' * 2**30",
    "a deep value": "def first(s):\n    v = []\n    for _ in range(100_000): v = [v]\n    return v",
    "a value without end": "import itertools\ndef first(s): return (x for x in itertools.count())",
    "a file read": "def first(s): return open('/etc/passwd').read()[0]",
    "a file read by its number": "import os\ndef first(s): return os.read(os.open('/etc/passwd', 0), 1).decode()",
    "a file written": f"open({PLANTED!r}, 'w').write('x')",
    "a folder listed": "import os\ndef first(s): return os.listdir('/')[0]",
    "a socket": "import socket\ndef first(s): return socket.socket().recv(1)",
    "a shell": f"import os\ndef first(s): return os.system('touch {PLANTED}')",
    "native code": "import ctypes\ndef first(s): return ctypes.CDLL(None).getpid()",
    "the parent killed": "import os\nos.kill(os.getppid(), 9)",
    "its group killed": "import os\nos.killpg(0, 9)",
    "limits lifted": "import resource\nresource.setrlimit(resource.RLIMIT_CPU, (99, 99))\nwhile True: pass",
    "a module brought along": "import sys\nsys.path.insert(0, '/tmp')\nimport planted",
}


def test_a_hostile_answer_earns_nothing_and_costs_nobody_else(score: Score) -> None:
    cheap = [code for name, code in HOSTILE.items() if "loop" not in name and name not in ("threads", "memory")]
    rewards = score("mbpp", [*cheap, RIGHT]).rewards
    assert rewards == (*([0.0] * len(cheap)), 1.0)
    assert not Path(PLANTED).exists()


WAITING = {
    "a request swallowed": "import os\ndef first(s):\n    while True: os.read(4, 1)",
    "a request that never comes": "import os\nos.read(4, 1)\nos.read(4, 2**20)\nos.read(4, 2**20)",
    "a lock for a while": "import threading\nlock = threading.Lock()\nlock.acquire()\n"
    "while True: lock.acquire(timeout=0.5)",
    "the processor given away": "import os\nwhile True: os.sched_yield()",
}


def test_an_answer_that_waits_is_ended_long_before_its_time_and_counts_as_killed_where_it_could(score: Score) -> None:
    found = score("mbpp", [*WAITING.values(), RIGHT])
    assert found.rewards == (*([0.0] * len(WAITING)), 1.0)
    assert found.killed >= 2, "those that read wait until they are ended; the others fail at once"


LOOKS = {
    "through its own frames": "def frame_of():\n    return sys._getframe()\n",
    "through a traceback's": "def frame_of():\n    try:\n        1 / 0\n    except ZeroDivisionError as e:\n"
    "        return e.__traceback__.tb_frame\n",
    "through a generator's": "def made():\n    yield\ndef frame_of():\n    g = made()\n    next(g)\n"
    "    return g.gi_frame.f_back or sys._getframe()\n",
}


@pytest.mark.parametrize("look", LOOKS.values(), ids=LOOKS)
def test_an_answer_that_looks_through_the_frames_below_it_finds_no_test(score: Score, look: str) -> None:
    reads = f"""
import re, sys
{look}
def seen():
    frame = frame_of()
    while frame:
        yield from (repr(value) for value in frame.f_locals.values() if isinstance(value, (str, bytes, list, tuple)))
        frame = frame.f_back
def first(s):
    for text in seen():
        if found := re.search(re.escape('first("%s")' % s) + " == .(.)", text):
            return found[1]
"""
    assert score("mbpp", [reads, RIGHT]).rewards == (0.0, 1.0)


def test_answers_that_spin_for_less_than_their_time_cost_their_author_what_they_took(score: Score) -> None:
    spins = [
        f"import time\ndef first(s):\n    while time.process_time() < {until}: pass\n    return s[0]"
        for until in (0.4, 0.45)
    ]
    found = score("mbpp", [*spins, RIGHT])
    assert (found.rewards, found.killed) == ((1.0, 1.0, 1.0), 0)
    assert 0.7 < found.slow < 1.5
    hangs = [f"x = {n}\nwhile True: pass" for n in range(2)]
    found = score("mbpp", [*hangs, RIGHT])
    assert (found.rewards, found.killed) == ((0.0, 0.0, 1.0), 2), "who never ends counts as killed"


@pytest.mark.engine
def test_a_hostile_answer_that_takes_its_time_earns_nothing_either(tmp_path: Path) -> None:
    with scoring(tmp_path, 5.0, ["mbpp"]) as score:
        rewards = score("mbpp", [*HOSTILE.values(), RIGHT]).rewards
    assert rewards == (*([0.0] * len(HOSTILE)), 1.0)


def test_groups_of_code_and_of_other_tasks_share_a_batch_and_keep_their_rewards(tmp_path: Path) -> None:
    json_lines(tmp_path / "q.jsonl", [MBPP])
    json_lines(tmp_path / "n.jsonl", sums(9))
    numbers = {"dataset": "n.jsonl", "scorer": "number", "answer_after": "####"}
    defined = complete({"code": OF_MBPP, "sums": numbers}, tmp_path)
    with serving(defined, limits=Limits(wall_s=30.0)) as served:
        questions = [served.question(name, n) for n, name in enumerate(["sums", "code", "sums", "code", "sums"])]
        rights = [RIGHT if one.task.endswith("code") else str(one.answer) for one in questions]
        answers = [tagged(right, HOSTILE["the end of the process at once"]) for right in rights]
        assert [one.rewards for one in served.scores(*zip(questions, answers, strict=True))] == [(1.0, 0.0)] * 5


def test_a_machine_without_the_kernels_bars_takes_no_such_task(tmp_path: Path) -> None:
    json_lines(tmp_path / "q.jsonl", [MBPP])
    families = Families((), complete({"code": OF_MBPP}, tmp_path))
    families.prepare()
    here = Bars([Bar("landlock", True, ""), Bar("seccomp", True, "")])
    scoring_server._require_bars(families, here)
    without = Bars([Bar("landlock", False, "needs a kernel of 5.13"), Bar("seccomp", True, "")])
    with pytest.raises(ConfigError, match=r"dataset/code execute answers, .*landlock: needs a kernel of 5\.13.*leave"):
        scoring_server._require_bars(families, without)
    scoring_server._require_bars(Families(), without)


@pytest.mark.parametrize(
    ("truth", "options", "problem"),
    [
        ("assert f(1) ==", {}, "the tests are no Python"),
        ("assert f(1)\nreturn", {}, "the tests are no Python: 'return' outside function"),
        ("f(1)", {}, "assert nothing"),
        ("assert len('a') == 1", {}, "call nothing that an answer could define"),
        ("assert f(1)", {"entry_point": "name"}, r"have to define check\(candidate\)"),
        (["assert f(1)", 2], {}, "expected code as text"),
    ],
)
def test_tests_that_test_nothing_are_refused(truth: Any, options: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        unit_tests.check(ScorerRow({"name": "f"}, truth, options))


_PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary()
    | st.complex_numbers(allow_nan=False),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.tuples(inner, inner)
        | st.sets(st.integers(), max_size=3)
        | st.frozensets(st.text(), max_size=3)
        | st.dictionaries(st.text() | st.integers() | st.tuples(st.integers()), inner, max_size=3)
    ),
    max_leaves=10,
)


@given(_PLAIN)
def test_plain_values_arrive_as_they_were_sent(value: Any) -> None:
    arrived = plain.unpack(plain.pack(value))
    assert arrived == value
    assert type(arrived) is type(value)


@given(st.binary(max_size=60))
def test_bytes_of_anybodys_are_a_plain_value_or_refused(message: bytes) -> None:
    with suppress(plain.NotPlainError):
        plain.unpack(message)


def test_iterators_arrive_as_lists_and_objects_not_at_all() -> None:
    assert plain.unpack(plain.pack(x * x for x in range(3))) == [0, 1, 4]
    with pytest.raises(plain.NotPlainError, match="of type object cannot be sent"):
        plain.pack([object()])
