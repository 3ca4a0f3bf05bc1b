"""A budget for reasoning: what is forced, where, and that nothing else changes."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from swarm.policy.model import LanguageModel, load_model
from swarm.policy.policy import make_policy
from swarm.policy.prompt import ReasoningBudget, encode_prompt
from swarm.policy.settings import GrpoConfig
from swarm.types import Completion
from tests.unit.policy.factories import make_model, make_tokenizer

BUDGET, QUESTION = 3, "What is 3 * 4?"
CLOSING = "\n<answer>"


@cache
def embedded() -> LanguageModel:
    """Every tenth of its answers begins with a tag."""
    return load_model("tiny-2-qwen2", device="cpu", max_new_tokens=16)


def answers(model: LanguageModel, **settings: Any) -> tuple[Completion, ...]:
    return make_policy(model, GrpoConfig(**settings)).generate([QUESTION], group_size=64, seed=1)[0]


@pytest.mark.parametrize("decoding", ["dynamic", "static"])
@pytest.mark.parametrize("budget", [1, BUDGET])
def test_at_the_budget_an_answer_is_begun_and_completions_that_have_one_or_have_ended_stay(
    decoding: str, budget: int
) -> None:
    model = embedded()
    ids = tuple(model.tokenizer(CLOSING)["input_ids"])
    counted = {"tagged": 0, "ended": 0, "forced": 0}
    free, held = answers(model, decoding=decoding), answers(model, decoding=decoding, max_reasoning_tokens=budget)
    for one, other in zip(free, held, strict=True):
        assert one.token_ids is not None
        assert other.token_ids is not None
        begun = one.token_ids[:budget]
        tagged = "<answer>" in model.tokenizer.decode(begun)
        ended = begun[-1] in model.eos_ids
        if tagged or ended:
            assert (one.token_ids, one.text, one.forced) == (other.token_ids, other.text, other.forced)
            assert one.logprobs == pytest.approx(other.logprobs, abs=1e-4)  # other rows are beside it
            counted["tagged" if tagged else "ended"] += 1
            continue
        counted["forced"] += 1
        assert other.forced == (budget, len(ids))
        assert other.token_ids[: budget + len(ids)] == (*begun, *ids)
        assert other.text.startswith(model.tokenizer.decode(begun) + CLOSING)
        assert budget + len(ids) < len(other.token_ids) <= 16
    assert counted["tagged"] > 0
    assert counted["forced"] > 0
    assert (counted["ended"] > 0) == (budget > 1)


def test_where_the_closing_and_an_answer_have_no_room_nothing_is_forced() -> None:
    for room, forced in ((BUDGET + len(CLOSING), None), (BUDGET + len(CLOSING) + 1, (BUDGET, len(CLOSING)))):
        model = make_model(max_new_tokens=room)
        assert {one.forced for one in answers(model, max_reasoning_tokens=BUDGET)} == {forced, None}  # some have ended
    assert answers(model, max_reasoning_tokens=room) == answers(model)


def test_a_closing_in_which_a_completion_ends_is_forced_up_to_there() -> None:
    model = make_model(max_new_tokens=16)
    (tag,) = model.tokenizer("<")["input_ids"]
    ending = make_model(max_new_tokens=16, eos_ids=(tag,))
    found = {(one.forced, one.finished) for one in answers(ending, max_reasoning_tokens=BUDGET)}
    assert ((BUDGET, 2), True) in found
    assert found <= {((BUDGET, 2), True), (None, True)}


THINKS = "{{ messages[-1]['content'] }}<|im_start|>assistant\n<think>\n"


@pytest.mark.parametrize(
    ("template", "written", "closing"),
    [
        (None, "so many", CLOSING),
        (None, "<think>so", "</think>\n\n<answer>"),
        (THINKS, "so many", "</think>\n\n<answer>"),
        (f"{THINKS}\n</think>\n\n", "so many", CLOSING),
        (THINKS, "so</think>", ""),
        (None, "so <answer>", ""),
        (None, "so <answer", CLOSING),
    ],
)
def test_a_thought_is_closed_where_the_prompt_or_the_model_has_opened_one(
    template: str | None, written: str, closing: str
) -> None:
    tokenizer = make_tokenizer(chat_template=template)
    ids = ReasoningBudget(tokenizer, BUDGET).closing(
        encode_prompt(tokenizer, QUESTION), tokenizer(written)["input_ids"]
    )
    assert tokenizer.decode(list(ids)) == closing
