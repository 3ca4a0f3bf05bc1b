"""Sampling: what it writes, what it reports, and that rows do not disturb each other."""

from __future__ import annotations

from itertools import chain
from typing import Any

import pytest
import torch

from swarm.errors import ModelError
from swarm.policy import generator
from swarm.policy.draw import Sampling
from swarm.policy.forward import DynamicDecoding
from swarm.policy.generate import Ended, GeneratedSample, StopStrings, draw_uniforms, sample, sample_in_parts
from swarm.policy.model import LanguageModel
from swarm.policy.policy import make_policy
from swarm.policy.settings import GrpoConfig
from swarm.types import Completion
from tests.unit.policy.factories import ARCHITECTURES, make_model, make_tokenizer

PROMPTS = [[5, 6, 7], [9] * 40, [11, 12, 13, 14, 15, 16, 17]]
PLAIN = Sampling()
SOME_ENDS = tuple(range(40))
"""With this many end-of-text tokens, random models end about every tenth token."""


def write(
    model: LanguageModel,
    prompts: list[list[int]] = PROMPTS,
    *,
    group_size: int = 4,
    seed: int = 0,
    sampling: Sampling = PLAIN,
) -> list[list[GeneratedSample]]:
    uniforms = draw_uniforms(len(prompts), group_size, model.max_new_tokens, seed)
    return sample(DynamicDecoding(model), prompts, uniform_K_G_T=uniforms, sampling=sampling)


@torch.no_grad()
def logprobs_one_by_one(
    model: LanguageModel, prompt: list[int], tokens: tuple[int, ...], temperature: float
) -> torch.Tensor:
    """The whole sequence in one plain forward pass: no cache, no padding, no batch."""
    logits = model.module(input_ids=torch.tensor([[*prompt, *tokens]]), use_cache=False).logits[0]
    predicting = logits[len(prompt) - 1 : -1] / temperature
    return predicting.log_softmax(dim=1)[range(len(tokens)), list(tokens)]


@pytest.mark.parametrize("architecture", [*ARCHITECTURES, "sliding"])
def test_logprobs_are_those_of_a_plain_forward_pass(architecture: str) -> None:
    model = make_model(architecture, eos_ids=SOME_ENDS)
    groups = write(model, sampling=Sampling(temperature=0.8))
    for prompt, samples in zip(PROMPTS, groups, strict=True):
        for one in samples:
            expected = logprobs_one_by_one(model, prompt, one.token_ids, 0.8)
            torch.testing.assert_close(torch.tensor(one.logprobs), expected, atol=1e-4, rtol=0)


def test_how_a_models_generation_config_would_sample_changes_nothing() -> None:
    """The settings say how is sampled, and the trainer counts on it: of that file ends of text and the length count."""
    greedy = make_model()
    config = greedy.module.generation_config
    config.do_sample, config.temperature, config.top_k, config.top_p = False, 0.01, 1, 0.1
    config.repetition_penalty, config.no_repeat_ngram_size, config.min_new_tokens = 5.0, 2, 4
    assert write(greedy) == write(make_model())


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_rows_that_finish_early_do_not_change_the_others(architecture: str) -> None:
    endless = write(make_model(architecture))
    ending = write(make_model(architecture, eos_ids=SOME_ENDS))
    lengths = set()
    for long, short in zip(chain(*endless), chain(*ending), strict=True):
        ends = [i for i, token in enumerate(long.token_ids) if token in SOME_ENDS]
        expected = long.token_ids[: ends[0] + 1] if ends else long.token_ids
        assert short.token_ids == expected
        lengths.add(len(expected))
    assert len(lengths) > 2  # otherwise nothing was compacted


def test_finished_completions_keep_their_end_of_text_and_truncated_ones_have_none() -> None:
    samples = list(chain(*write(make_model(eos_ids=SOME_ENDS), group_size=16)))
    ends = set(SOME_ENDS) | make_model().eos_ids
    for one in samples:
        assert (one.token_ids[-1] in ends) == one.finished
        assert not ends & set(one.token_ids[:-1])
        assert len(one.token_ids) == len(one.logprobs)
        assert one.finished or len(one.token_ids) == 12
    assert {one.finished for one in samples} == {True, False}


def test_context_limits_the_new_tokens_of_long_prompts_alone() -> None:
    model = make_model("gpt2", context=44)
    lengths = [max(len(one.token_ids) for one in group) for group in write(model)]
    assert lengths == [12, 4, 12]


def test_diverged_weights_are_an_error_not_a_crash_of_the_sampler() -> None:
    model = make_model()
    with torch.no_grad():
        next(model.module.parameters()).fill_(torch.nan)
    with pytest.raises(ModelError, match="its weights have diverged"):
        make_policy(model, GrpoConfig()).generate(["1 + 1 ="], group_size=2, seed=1)


def test_text_of_a_finished_completion_ends_before_its_end_of_text() -> None:
    model = make_model(eos_ids=SOME_ENDS)  # ordinary characters, which decoding would show
    ((*completions,),) = make_policy(model, GrpoConfig()).generate(["?"], group_size=16, seed=0)
    ended = [one for one in completions if one.finished and one.token_ids]
    assert ended
    for one in ended:
        assert one.text == model.tokenizer.decode(one.token_ids[:-1], skip_special_tokens=True)


def test_a_question_that_fills_the_context_gets_empty_answers_and_changes_no_other() -> None:
    policy = make_policy(make_model(context=700), GrpoConfig(max_new_tokens=4))
    alone = policy.generate(["a", "b"], group_size=2, seed=3)
    with_long = policy.generate(["a", "b", "?" * 1000], group_size=2, seed=3)
    assert with_long[:2] == alone
    assert [(c.text, c.finished, c.token_ids) for c in with_long[2]] == [("", False, ())] * 2


def test_a_prompt_has_room_where_a_whole_answer_fits_behind_it() -> None:
    policy = make_policy(make_model(context=700, max_new_tokens=4), GrpoConfig(max_new_tokens=4))
    (longest,) = [size for size in range(700) if policy.has_room("?" * size) > policy.has_room("?" * (size + 1))]
    cut = [policy.generate(["?" * size], group_size=2, seed=3)[0][0] for size in (longest, longest + 4)]
    assert [len(completion.token_ids) for completion in cut] == [4, 0]


@pytest.mark.parametrize("rows", [2**16, 3])
def test_groups_are_told_as_they_end_and_are_to_the_bit_what_comes_out_untold(rows: int) -> None:
    model = make_model(eos_ids=SOME_ENDS)
    uniforms = draw_uniforms(len(PROMPTS), 4, model.max_new_tokens, 3)
    told: list[tuple[int, list[GeneratedSample]]] = []

    def written(**more: Any) -> list[list[GeneratedSample]]:
        return sample_in_parts(
            DynamicDecoding(model), PROMPTS, uniform_K_G_T=uniforms, sampling=PLAIN, max_rows=rows, **more
        )

    whole = written(ended=lambda k, group: told.append((k, group)))
    assert whole == written()
    assert sorted(k for k, _ in told) == [0, 1, 2]
    assert all(group == whole[k] for k, group in told)


def test_a_group_is_told_before_longer_ones_are_written() -> None:
    model = make_model(eos_ids=SOME_ENDS)
    uniforms = draw_uniforms(len(PROMPTS), 4, model.max_new_tokens, 3)
    order: list[int] = []
    whole = sample(
        DynamicDecoding(model), PROMPTS, uniform_K_G_T=uniforms, sampling=PLAIN, ended=lambda k, _: order.append(k)
    )
    lengths = [max(len(one.token_ids) for one in group) for group in whole]
    assert len(set(lengths)) > 1
    assert [lengths[k] for k in order] == sorted(lengths)


def test_what_was_told_stays_where_a_smaller_batch_writes_it_again(monkeypatch: pytest.MonkeyPatch) -> None:
    policy = make_policy(make_model(eos_ids=SOME_ENDS), GrpoConfig())
    told: dict[int, tuple[Completion, ...]] = {}
    attempts: list[int] = []
    real = generator.sample_in_parts

    def fails_at_first(*args: Any, ended: Ended, **more: Any) -> list[list[GeneratedSample]]:
        attempts.append(1)
        if len(attempts) == 1:
            ended(1, [GeneratedSample((5, 6), (-0.5, -0.5), False)] * 4)
            raise torch.cuda.OutOfMemoryError
        return real(*args, ended=ended, **more)

    monkeypatch.setattr(generator, "sample_in_parts", fails_at_first)
    groups = policy.generate(["1 + 1?", "2 + 2?"], group_size=4, seed=0, ready=told.__setitem__)
    assert len(attempts) == 2
    assert groups == [told[0], told[1]]
    assert groups[1][0].token_ids == (5, 6)


STOPS = ("ab", *"cdefgABCDEFGHIJ!0123456789")


@pytest.mark.parametrize("decoding", ["dynamic", "static"])
def test_a_completion_ends_behind_its_first_stop_string_and_is_the_same_up_to_there(decoding: str) -> None:
    model = make_model(eos_ids=SOME_ENDS[:8], max_new_tokens=40)

    def written(**more: Any) -> tuple[Completion, ...]:
        policy = make_policy(model, GrpoConfig(decoding=decoding, temperature=2.0, **more))
        return policy.generate(["?"], group_size=32, seed=1)[0]

    stopped = 0
    for whole, one in zip(written(), written(stop=STOPS), strict=True):
        assert whole.token_ids is not None
        assert one.token_ids is not None
        assert whole.logprobs is not None
        ids = [whole.token_ids[:n] for n in range(1, len(whole.token_ids) + 1)]
        first = next((n for n in ids if any(stop in model.tokenizer.decode(n) for stop in STOPS)), None)
        if first is None or (whole.token_ids == first and whole.finished):
            assert (one.token_ids, one.text, one.finished) == (whole.token_ids, whole.text, whole.finished)
            continue
        stopped += 1
        assert (one.token_ids, one.finished) == (first, True)
        assert one.logprobs == pytest.approx(whole.logprobs[: len(first)], abs=1e-4)  # other rows are beside it
        assert one.text.endswith(STOPS)
    assert 0 < stopped < 32


def test_a_stop_string_may_lie_across_many_tokens() -> None:
    tokenizer = make_tokenizer()
    ids = tokenizer("so <answer>4</answer> and on")["input_ids"]
    stops = StopStrings(tokenizer, ["</answer>"])
    ends = {stops.end(ids, looked) for looked in range(len("so <answer>4</answer>"))}
    assert ends == {len("so <answer>4</answer>")}
    assert stops.end(ids[:20], 0) is None
