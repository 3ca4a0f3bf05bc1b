"""Answer extraction: the last closed pair, in linear time."""

from __future__ import annotations

import time

import pytest

from swarm.tasks.answer import ANSWER_LIMIT, extract_answer, has_answer


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("<answer>42</answer>", "42"),
        ("so <answer>\n 4 2\t</answer> done", "4 2"),
        ("<answer></answer>", ""),
        ("<answer>1</answer> no: <answer>2</answer>", "2"),
        ("<answer>1</answer> and <answer>2", "1"),
        ("<answer>1</answer></answer>", "1"),
        ("<answer>1<answer>2</answer>", "2"),
        ("</answer><answer>3</answer>", "3"),
        ("<answer>" + "7" * ANSWER_LIMIT + "</answer>", "7" * ANSWER_LIMIT),
    ],
)
def test_the_answer_is_the_stripped_content_of_the_last_closed_pair(text: str, answer: str) -> None:
    assert extract_answer(text) == answer
    assert has_answer(text)


@pytest.mark.parametrize("text", ["", "42", "<answer>42", "42</answer>", "</answer>42<answer>", "<Answer>42</Answer>"])
def test_without_a_closed_pair_there_is_no_answer(text: str) -> None:
    assert extract_answer(text) is None
    assert not has_answer(text)


@pytest.mark.parametrize("answer", ["7" * (ANSWER_LIMIT + 1), "\ud800"], ids=["too long", "no Unicode"])
def test_an_answer_longer_than_the_limit_or_of_a_lone_surrogate_is_one_that_no_scorer_sees(answer: str) -> None:
    assert extract_answer(f"<answer>{answer}</answer>") is None
    assert has_answer(f"<answer>{answer}</answer>")


@pytest.mark.parametrize(("text", "end"), [("<answer>", ""), ("</answer>", ""), ("<answer>x", "</answer>")])
def test_megabytes_of_tags_take_linear_time(text: str, end: str) -> None:
    few, many = (min(timed(text * count + end) for _ in range(5)) for count in (20_000, 640_000))
    assert many < 10 * 32 * few, "quadratic time would be a thousand times as long"


def timed(text: str) -> float:
    start = time.perf_counter()
    extract_answer(text)
    return time.perf_counter() - start
