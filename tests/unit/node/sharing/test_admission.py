"""What is let in, as far as a file itself tells: of the questions that a node draws, and the mixture that it asks."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET

import swarm
from swarm.config import Settings
from swarm.config.settings import TermsTable
from swarm.errors import ProtocolError
from swarm.node.sharing.admission import MOST_TEXT, Admission, AssignedQuestions, Mixtures
from swarm.tasks.family import QuestionRequest
from swarm.tasks.universe import Mixture, Universe
from swarm.types import LONGEST_REPLY, Completion, RolloutGroup, RoundKey, Turn
from swarm.wire.codec import to_groups
from tests.unit.node.factories import DRAWS, TASKS, UNIVERSE, make_rollouts

R0 = RoundKey(0)


class CountingDraws(AssignedQuestions):
    """Remembers how many questions were drawn."""

    def __init__(self) -> None:
        super().__init__(42, UNIVERSE)
        self.drawn = 0

    def questions(self, node: str, key: RoundKey, count: int, mixture: Mixture | None = None) -> list[QuestionRequest]:
        self.drawn += count
        return super().questions(node, key, count, mixture)


def admission(assigned: AssignedQuestions = DRAWS) -> Admission:
    return Admission(Settings(), assigned)


def groups_of(count: int = 2) -> list[RolloutGroup]:
    return to_groups(make_rollouts("bob", R0, groups=count), "bob", R0)


def test_a_slot_beyond_all_bounds_is_refused_without_drawing_up_to_it() -> None:
    assigned = CountingDraws()
    far = msgspec.structs.replace(groups_of(1)[0], slot=999_999)
    refusals = admission(assigned=assigned).refusals("bob", R0, [*groups_of(), far])
    assert [refusal.reason if refusal else None for refusal in refusals] == [None, None, "not_drawn"]
    assert assigned.drawn == 2


@pytest.mark.parametrize(
    ("settings", "longest"),
    [({}, 64 * 256), ({"max_new_tokens": 24}, 64 * 24), ({"max_new_tokens": 24, "completion_characters": 100}, 100)],
)
def test_a_completion_that_is_longer_than_this_run_can_produce_refuses_its_group_alone(
    settings: dict[str, int], longest: int
) -> None:
    rules = Admission(Settings().with_values(settings), DRAWS)
    short, long = groups_of(2)
    texts = [(Completion("x" * length, True), Completion("", True)) for length in (longest, longest + 1)]
    groups = [msgspec.structs.replace(group, completions=two) for group, two in zip((short, long), texts, strict=True)]
    fits, too_long = rules.refusals("bob", R0, groups)
    assert fits is None
    assert too_long is not None
    assert too_long.reason == "too_long"
    assert "SWARM_COMPLETION_CHARACTERS" in str(too_long)


def test_all_responses_of_a_file_together_have_a_limit() -> None:
    group = groups_of(1)[0]
    for characters, fits in ((MOST_TEXT // 2, True), (MOST_TEXT // 2 + 1, False)):
        texts = (Completion("x" * characters, True),) * 2
        file = [msgspec.structs.replace(group, completions=texts)]
        if fits:
            admission().check_size(file)
        else:
            with pytest.raises(ProtocolError, match="oversized"):
                admission().check_size(file)


def test_all_turns_of_a_conversation_count() -> None:
    (group,) = groups_of(1)
    long = Completion("a", True, earlier=(Turn("a" * (64 * 256 + 1), True, "go on"),))
    (refusal,) = admission().refusals("bob", R0, [msgspec.structs.replace(group, completions=(long, long))])
    assert refusal
    assert refusal.reason == "too_long"
    wordy = Completion("a", True, earlier=(Turn("a", True, "b" * LONGEST_REPLY),) * 15)
    many = MOST_TEXT // (15 * LONGEST_REPLY) + 1
    with pytest.raises(ProtocolError, match="characters of responses"):
        admission().check_size([msgspec.structs.replace(group, completions=(wordy,) * many)])


@pytest.mark.parametrize(
    ("licence", "refused"), [("CC0-1.0", False), ("cc-by-4.0", False), ("GPL-3.0-only", True), ("", True)]
)
def test_texts_under_other_licences_are_refused_where_some_are_named(licence: str, refused: bool) -> None:
    rules = Admission(Settings(terms=TermsTable(licences=("CC0-1.0", "CC-BY-4.0"))), DRAWS)
    groups = [msgspec.structs.replace(group, licence=licence) for group in groups_of()]
    reasons = [refusal and refusal.reason for refusal in rules.refusals("bob", R0, groups)]
    assert reasons == ["other_licence" if refused else None] * 2


def test_texts_that_name_no_licence_are_taken_where_that_is_asked_for() -> None:
    rules = Admission(Settings(terms=TermsTable(licences=("none",))), DRAWS)
    assert rules.refusals("bob", R0, groups_of()) == [None, None]


# ── which mixture a peer asks, and what is refused of one that changes it ─────────────────────────────────────────────
def reason(mixtures: Mixtures, peer: str, said: Any) -> str:
    with pytest.raises(ProtocolError) as refused:
        mixtures.of_file(peer, said)
    return refused.value.reason


@pytest.mark.parametrize("said", [{"chess": 1}, {}, {"bf": 0}, {"bf": -1.0}, {"bf": float("nan")}, {"bf": 1e300}])
def test_a_mixture_outside_of_the_run_is_refused(said: dict[str, float]) -> None:
    assert reason(Mixtures(UNIVERSE), "bob", said) == "outside_universe"


def test_a_peer_is_held_to_the_mixture_that_was_seen_first() -> None:
    known = Mixtures(UNIVERSE)
    known.registered("bob", {"bf": 2, "arc_1d": 1})
    assert known.of_file("bob", {"arc_1d": 1, "bf": 2}).weights == {"bf": 2, "arc_1d": 1}, "whatever their order"
    assert reason(known, "bob", {"bf": 1}) == "other_mixture"
    assert reason(known, "bob", UNSET) == "other_mixture"
    known.registered("bob", {"bf": 1})
    assert known.of_file("bob", {"bf": 2, "arc_1d": 1}), "a registration changes nothing either"


def test_who_registers_nothing_is_held_to_its_first_file() -> None:
    known = Mixtures(UNIVERSE)
    assert known.of_file("bob", UNSET) == UNIVERSE.mixture
    assert reason(known, "bob", {"bf": 1}) == "other_mixture"
    known.registered("eve", {"chess": 1})
    assert reason(known, "eve", {"chess": 1}) == "outside_universe"
    assert known.of_file("eve", {"bf": 1}).tasks == ("bf",)


def test_names_without_end_take_no_memory_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("swarm.node.sharing.admission.MOST_MIXTURES", 8)
    known = Mixtures(UNIVERSE)
    for number in range(100):
        known.of_file(f"eve-{number}", UNSET)
    assert len(known._first) == 8


@given(st.dictionaries(st.sampled_from(TASKS), st.floats(0.001, 1000), min_size=1))
def test_a_node_asks_what_its_mixture_has_and_nothing_else(weights: dict[str, float]) -> None:
    mixture = UNIVERSE.mixture_of(weights)
    asked, usual = (DRAWS.questions("anna", RoundKey(3), 64, one) for one in (mixture, None))
    assert {question.task for question in asked} <= weights.keys()
    assert [question.seed for question in asked] == [question.seed for question in usual]


# ── which questions a node asks itself ────────────────────────────────────────────────────────────────────────────────
R3 = RoundKey(3)


def test_draws_are_what_they_were_in_the_first_run_ever() -> None:
    """Peers of two versions would refuse each other's groups if this changed: it is part of the protocol."""
    universe = Universe.of(("bf", "arc_1d", "base_conversion"), "tiny")
    assert AssignedQuestions(42, universe).questions("anna", RoundKey(17), 3) == [
        QuestionRequest("base_conversion", "tiny", 759014466, 0),
        QuestionRequest("bf", "tiny", 621763024, 0),
        QuestionRequest("bf", "tiny", 625668219, 0),
    ]


def test_the_first_questions_of_many_are_those_of_few() -> None:
    assert DRAWS.questions("anna", R3, 64)[:5] == DRAWS.questions("anna", R3, 5)


def test_every_node_round_stage_and_slot_has_questions_of_its_own() -> None:
    keys = [RoundKey(3, 0), RoundKey(3, 1), RoundKey(4, 0)]
    seeds = [q.seed for node in ("anna", "ben") for key in keys for q in DRAWS.questions(node, key, 8)]
    assert len(set(seeds)) == len(seeds) == 48


def test_another_run_or_other_tasks_ask_other_questions() -> None:
    mine = DRAWS.questions("anna", R3, 8)
    assert AssignedQuestions(43, Universe.of(TASKS, "tiny")).questions("anna", R3, 8) != mine
    assert AssignedQuestions(42, Universe.of(TASKS[::-1], "tiny")).questions("anna", R3, 8) != mine
    assert AssignedQuestions(42, Universe.of(TASKS, "paper")).questions("anna", R3, 8) != mine


def test_the_protocol_page_says_how_they_are_drawn() -> None:
    page = (Path(swarm.__file__).parent / "wire" / "PROTOCOL.md").read_text("utf-8")
    (code,) = re.findall(r"^## Which questions are drawn\n.*?```python\n(.*?)```", page, re.DOTALL | re.MULTILINE)
    names: dict[str, Any] = {"run_seed": 42, "node": "anna", "round": 3, "stage": 0, "tasks": TASKS, "slots": 5}
    exec(code, names)
    drawn = [(question.task, question.seed) for question in DRAWS.questions("anna", R3, 5)]
    assert list(zip(names["task_of_slot"], names["seed_of_slot"], strict=True)) == drawn
