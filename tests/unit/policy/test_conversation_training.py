"""One update on conversations: against an independent implementation, and what counts as a token of theirs."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from functools import partial

import msgspec
import pytest
import torch

from swarm.algo.losses import LOSSES
from swarm.policy.batch import EXTERNAL_LENGTHS, encode_groups
from swarm.policy.embedded import EMBEDDED
from swarm.policy.model import LanguageModel, load_model
from swarm.policy.policy import make_policy
from swarm.policy.settings import GrpoConfig
from swarm.types import Completion, Dialogue, Generator, TrainGroup, Turn
from tests.unit.policy.factories import ARCHITECTURES, gradient_of, largest_gap, make_group, make_model, make_trainer
from tests.unit.policy.reference import reference

SOME_ENDS = tuple(range(40))
REPLIES = (("too small", "no, too large"), (), ("?",), ("almost", ""))
"""To four conversations: of 3, 1, 2 and 3 turns."""
ADVANTAGES = (1.0, -0.5, 0.25, -0.75)
KL, CAP, TEMPERATURE = 0.3, 1.1, 0.8


def converse(generator: Generator, question: str, replies: Sequence[Sequence[str]]) -> tuple[Completion, ...]:
    """Conversations in which the environment says this, whatever it hears; each turn is asked for at once."""
    live = [generator.generate([question], group_size=1, seed=n)[0][0] for n in range(len(replies))]
    for number in range(max(map(len, replies))):
        for n, one in enumerate(live):
            if number < len(replies[n]):
                turn = Turn(one.text, one.finished, replies[n][number], one.token_ids, one.logprobs)
                turns = (*one.earlier, turn)
                ((later,),) = generator.generate([Dialogue(question, turns)], group_size=1, seed=n)
                live[n] = msgspec.structs.replace(later, earlier=turns)
    return tuple(live)


def said(*texts: str, finished: bool = True) -> Completion:
    """A stranger's conversation: the model's words and the environment's, in turn."""
    turns = tuple(Turn(text, finished, reply) for text, reply in zip(texts[:-1:2], texts[1::2], strict=True))
    return Completion(texts[-1], finished, earlier=turns)


def groups_of(model: LanguageModel) -> list[TrainGroup]:
    """Own conversations, a stranger's, and groups of one turn, some with nothing to learn."""
    policy = make_policy(model, GrpoConfig(temperature=TEMPERATURE))
    theirs = (said("5", "more", "9", "less", "7"), said("8"), said("no", "why?", "", finished=False))
    claimed = (*converse(policy, "Which?", (("yes",), ("no", "no"))),)
    return [
        TrainGroup("Guess my number.", converse(policy, "Guess my number.", REPLIES), ADVANTAGES),
        TrainGroup("And mine?", theirs, (0.5, -1.0, 0.5), external=True),
        make_group(),
        TrainGroup("Which?", claimed, (0.75, -0.75), external=True, tokenizer=model.tokenizer_digest),
        TrainGroup("How many?", converse(policy, "How many?", (("2",), ())), (0.0, 0.0)),
    ]


def moved(model: LanguageModel) -> None:
    """Weights that are no longer those which have generated, nor those of the KL term."""
    torch.manual_seed(1)
    with torch.no_grad():
        for parameter in model.module.parameters():
            parameter.add_(0.02 * torch.randn_like(parameter))


@pytest.mark.parametrize(
    ("loss", "kl", "cap"),
    [*((loss, KL, CAP) for loss in LOSSES), ("grpo", 0.0, 0.0), ("gspo", KL, 0.0), ("dr_grpo", 0.0, CAP)],
)
def test_loss_and_gradient_of_conversations_equal_an_independent_implementation(
    loss: str, kl: float, cap: float
) -> None:
    model = make_model(eos_ids=SOME_ENDS)
    groups = groups_of(model)
    before = copy.deepcopy(model.module)
    settings = {"temperature": TEMPERATURE, "loss": loss, "kl_weight": kl, "importance_cap": cap}
    trainer = make_trainer(model, **settings)
    moved(model)
    held = groups if cap else [group for group in groups if not (group.external and group.tokenizer)]
    expected_loss, expected = reference(model, held, loss, before=before, kl=kl, cap=cap, temperature=TEMPERATURE)
    report = trainer.finish_update(held)
    ours = {name: moment / 0.1 for name, moment in trainer.state().first_moments.items()}
    assert largest_gap(expected, ours) < 2e-5
    assert report.loss == pytest.approx(expected_loss, rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("architecture", [*ARCHITECTURES, "sliding"])
def test_gradient_of_conversations_is_the_same_however_rows_are_parted(architecture: str) -> None:
    model = make_model(architecture, eos_ids=SOME_ENDS)
    gradient = partial(gradient_of, model, groups_of(model), importance_cap=CAP, temperature=TEMPERATURE)
    whole = gradient()
    assert largest_gap(whole, gradient(micro_batch_tokens=64)) < 1e-5
    assert largest_gap(whole, gradient(gradient_checkpointing=True)) < 1e-5


@pytest.mark.parametrize("name", EMBEDDED[:2])
def test_trainer_and_generator_agree_on_every_logprob_of_three_turns(name: str) -> None:
    model = load_model(name, device="cpu", max_new_tokens=24)
    policy = make_policy(model, GrpoConfig())
    completions = converse(policy, "What is 3 * 4?", (("No. Once more!", "No."), ("Why?", "So?"), ("", "?"), ()))
    report = policy.finish_update([TrainGroup("What is 3 * 4?", completions, ADVANTAGES)])
    turns = [turn for one in completions for turn in (*one.earlier, one)]
    assert len(turns) == 10
    assert 0 < report.logprob_drift < 1e-4
    assert report.tokens == report.trained_tokens == sum(len(turn.token_ids or ()) for turn in turns)


def claimed(model: LanguageModel) -> TrainGroup:
    policy = make_policy(model, GrpoConfig())
    completions = converse(policy, "?", (("more", "less"),))
    return TrainGroup("?", completions, (1.0,), external=True, tokenizer=model.tokenizer_digest)


def test_a_strangers_tokens_are_used_where_those_of_every_turn_hold() -> None:
    model = make_model(eos_ids=SOME_ENDS)
    group = claimed(model)
    (one,) = group.completions
    turns = (*one.earlier, one)
    (row,) = encode_groups([group], model, all_rows=True, use_claims=True).rows
    assert row.written_ids == [token for turn in turns for token in turn.token_ids or ()]
    assert row.behaviour_logprobs == tuple(value for turn in turns for value in turn.logprobs or ())
    lie = msgspec.structs.replace(one.earlier[1], text=f"{one.earlier[1].text}!")
    false = msgspec.structs.replace(one, earlier=(one.earlier[0], lie))
    (row,) = encode_groups(
        [msgspec.structs.replace(group, completions=(false,))], model, all_rows=True, use_claims=True
    ).rows
    assert row.behaviour_logprobs is None
    assert lie.text in model.tokenizer.decode(row.written_ids)


def test_a_conversation_may_be_long_but_no_turn_of_a_strangers_much_longer_than_own_ones() -> None:
    model = make_model(max_new_tokens=2)
    most = "x" * (2 * EXTERNAL_LENGTHS)

    def left_out(*texts: str) -> int:
        group = TrainGroup("?", (said(*texts, finished=False),), (1.0,), external=True)
        return encode_groups([group], model, all_rows=True, use_claims=False).groups_too_long

    assert left_out(most, "on", most, "on", most) == 0
    assert left_out(most, "on", f"{most}x", "on", "7") == 1
    assert left_out("5", "on" * 300, "7") == 1, "the context has 512 tokens"
