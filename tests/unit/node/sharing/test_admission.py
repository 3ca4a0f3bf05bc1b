"""What is let in, as far as a file itself tells."""

from __future__ import annotations

import msgspec
import pytest

from swarm.config import Settings
from swarm.config.settings import TermsTable
from swarm.errors import ProtocolError
from swarm.node.sharing.admission import LONGEST_PROMPT, MOST_TEXT, Admission, AssignedQuestions
from swarm.tasks.family import QuestionRequest
from swarm.tasks.universe import Mixture
from swarm.types import LONGEST_REPLY, Completion, Question, RolloutGroup, RoundKey, Turn
from swarm.wire.codec import to_groups
from tests.unit.node.factories import DRAWS, UNIVERSE, make_rollouts

R0 = RoundKey(0)


class CountingDraws(AssignedQuestions):
    """Remembers how many questions were drawn."""

    def __init__(self) -> None:
        super().__init__(42, UNIVERSE)
        self.drawn = 0

    def questions(self, node: str, key: RoundKey, count: int, mixture: Mixture | None = None) -> list[QuestionRequest]:
        self.drawn += count
        return super().questions(node, key, count, mixture)


def admission(mode: str = "drawn", assigned: AssignedQuestions = DRAWS) -> Admission:
    return Admission(Settings(admit=mode), assigned)


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


def test_a_prompt_that_nobody_can_make_anew_has_a_limit() -> None:
    group = groups_of(1)[0]
    for characters, reason in ((LONGEST_PROMPT, None), (LONGEST_PROMPT + 1, "oversized")):
        foreign = msgspec.structs.replace(group, question=Question("x" * characters, None, "7"))
        (refusal,) = admission("unverified").refusals("bob", R0, [foreign])
        assert (refusal.reason if refusal else None) == reason


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


def test_a_conversation_that_nobody_can_have_again_is_refused() -> None:
    said = Completion("a", True, earlier=(Turn("a", True, "go on"),))
    group = RolloutGroup("bob", *R0, 0, Question("?", None, "a"), (said, said))
    (refusal,) = admission("unverified").refusals("bob", R0, [group])
    assert refusal
    assert refusal.reason == "reply_mismatch"


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
