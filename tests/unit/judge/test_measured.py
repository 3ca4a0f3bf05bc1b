"""What a probe shows, and what it proposes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.config.task_table import weights_of
from swarm.judge.probe import LEAST, MOST, MeasuredTask, Share, measure, proposed, wilson
from swarm.tasks.scoring import GroupScore
from swarm.tasks.universe import Universe
from swarm.types import Completion, Question

SHARES = st.floats(0, 1)


def exactly(mean: float) -> Share:
    return Share(mean, mean, mean)


def measured(task: str, informative: float, tagged: float = 1.0, reward: float = 0.5) -> MeasuredTask:
    shares = dict.fromkeys(("pass_at_1", "pass_at_g", "finished"), exactly(reward))
    return MeasuredTask(
        task=task,
        questions=16,
        generations=8,
        reward=exactly(reward),
        tagged=exactly(tagged),
        informative=exactly(informative),
        seconds=1.0,
        tokens=1,
        **shares,
    )


def group(*rewards: float) -> GroupScore:
    return GroupScore(Question("?", None), rewards, tuple(reward > 0 for reward in rewards), 0, 0)


def test_shares_are_over_questions() -> None:
    scores = [group(0.0, 1.0), group(0.0, 0.0), group(0.3, 0.3), group(1.0, 1.0)]
    one = measure("bf", scores, [(Completion("", True, (1, 2)), Completion("", False, (1,)))] * 4, seconds=2.0)
    means = (one.pass_at_1, one.pass_at_g, one.reward, one.tagged, one.finished, one.informative)
    assert [share.mean for share in means] == pytest.approx([0.375, 0.5, 0.45, 0.625, 0.5, 0.25])
    assert (one.questions, one.generations, one.tokens, one.seconds) == (4, 2, 12, 2.0)


def test_the_interval_is_wilsons() -> None:
    """Of 4 in 16: the textbook's values; of none it still reaches up."""
    quarter = Share(0.25, pytest.approx(0.1018, abs=1e-4), pytest.approx(0.4950, abs=1e-4))
    assert wilson([1.0] * 4 + [0.0] * 12) == quarter
    assert wilson([0.0] * 16) == Share(0.0, 0.0, pytest.approx(0.1936, abs=1e-4))


def test_tasks_are_left_out_with_the_reason() -> None:
    tasks = {
        "right": measured("right", 0.5),
        "untagged": measured("untagged", 0.0, tagged=0.0, reward=0.0),
        "hard": measured("hard", 0.1, reward=0.01),
        "easy": measured("easy", 0.1, reward=0.97),
        "noisy": measured("noisy", 0.95),
    }
    found = proposed(list(tasks.values()), Universe.of(list(tasks), "tiny-2"))
    assert (found.mixture, found.tasks) == ("right", ("right",))
    expected = {"untagged": "<answer>", "hard": "too hard", "easy": "too easy", "noisy": "more than 80%"}
    assert found.left_out.keys() == expected.keys()
    assert all(said in found.left_out[task] for task, said in expected.items())


def test_weights_of_the_run_stay() -> None:
    universe = Universe({"a": "x", "b": "x", "c": "x"}, {"a": 3.0, "b": 1.0, "c": 1.0})
    found = proposed([measured("a", 0.5), measured("b", 0.5), measured("c", 0.0)], universe)
    assert found.mixture == "a=3+b"
    assert proposed([measured("c", 0.0)], universe).mixture is None, "nothing can be learned"


NAMES = st.lists(st.sampled_from([*"abcdefgh", "dataset/i", "python/j"]), unique=True)


@given(NAMES.filter(bool), st.lists(st.tuples(st.sampled_from([*"abcdefghz", "dataset/i"]), SHARES, SHARES, SHARES)))
def test_a_proposal_is_a_mixture_of_the_universe_and_depends_on_no_order(
    tasks: list[str], shares: list[tuple[str, float, float, float]]
) -> None:
    universe = Universe.of(tasks, "tiny-2")
    found = {task: measured(task, *rest) for task, *rest in shares}
    proposal = proposed(list(found.values()), universe)
    assert proposal == proposed(list(reversed(found.values())), universe)
    assert {*proposal.tasks} | {*proposal.left_out} == {*found} & {*tasks}
    assert not {*proposal.tasks} & {*proposal.left_out}
    assert all(LEAST <= found[task].informative.mean <= MOST for task in proposal.tasks)
    if proposal.mixture is not None:
        assert universe.mixture_of(weights_of(proposal.mixture, "SWARM_MIXTURE")).tasks == proposal.tasks
    else:
        assert proposal.tasks == ()
