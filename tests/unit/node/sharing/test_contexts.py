"""Groups of the stage before: chosen for the own questions, found again by the names that others give them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import anyio
import msgspec
import pytest

from swarm.errors import ProtocolError
from swarm.node.sharing import contexts as module
from swarm.node.sharing import intake as intake_module
from swarm.node.sharing.admission import AssignedQuestions
from swarm.node.sharing.contexts import Contexts
from swarm.node.sharing.examination import MOST_TIMES_MISSED
from swarm.tasks.family import QuestionRequest
from swarm.tasks.revise import context_name, context_names, revised
from swarm.tasks.scoring import GroupScore
from swarm.types import Completion, Origin, Question, RolloutGroup, RoundKey, ScoredGroup
from swarm.wire.codec import to_groups, to_rollout_file
from swarm.wire.messages import PolicyInfo, RolloutEntry, RolloutFile
from tests.layout import Layout
from tests.patience import PATIENCE
from tests.unit.node.factories import UNIVERSE, FakeTaskSource, fake_question, make_rollouts
from tests.unit.node.intakes import ME, TestedIntake, everything, publish
from tests.unit.node.nodes import make_context

pytestmark = pytest.mark.anyio

STAGES = AssignedQuestions(42, UNIVERSE, stages=2)
FIRST, SECOND = RoundKey(3, 0), RoundKey(3, 1)


def first_stage(peer: str, **more: Any) -> RolloutFile:
    return make_rollouts(peer, FIRST, assigned=STAGES, **more)


def groups_of(file: RolloutFile) -> list[RolloutGroup]:
    return to_groups(file, file.peer_id, RoundKey(file.round, file.stage))


def asked(count: int = 2) -> list[tuple[int, Question]]:
    requests: list[QuestionRequest] = STAGES.questions(ME, SECOND, count)
    return [(slot, fake_question(request.origin("fake"))) for slot, request in enumerate(requests)]


def contexts(layout: Layout, source: FakeTaskSource | None = None, **settings: Any) -> Contexts:
    settings = {"max_stages": 2, "seed": 42, **settings}
    return Contexts(make_context(layout, ME, **settings), STAGES, source or FakeTaskSource())


def named(question: Question) -> list[str]:
    return [name.peer for name in context_names(question.known_origin())]


def publish_first(layout: Layout, *nodes: str) -> None:
    for node in nodes:
        publish(layout, first_stage(node))


def spoilt(file: RolloutFile, spoil: Callable[[RolloutEntry], object]) -> RolloutFile:
    """A file whose entries were all changed."""
    for entries in file.rollouts.values():
        for entry in entries:
            spoil(entry)
    return file


# ── the own questions ───────────────────────────────────────────────────────────────────────────────────────────────
def test_all_nodes_are_asked_the_same_in_a_round_and_in_each_of_its_stages() -> None:
    assert STAGES.questions("anna", FIRST, 3) == STAGES.questions("ben", SECOND, 3)
    assert STAGES.questions("anna", FIRST, 3) != STAGES.questions("anna", RoundKey(4), 3)


async def chosen(found: Contexts, *clean: str, has_room: Callable[[str], bool] = lambda prompt: True) -> list[Question]:
    """The own questions of the second stage, where these peers have a clean record."""

    async def room(prompt: str) -> bool:
        return has_room(prompt)

    return await found.choose(SECOND, asked(), frozenset(clean), room)


async def test_a_question_shows_the_own_group_and_those_of_peers_to_the_same_question(layout: Layout) -> None:
    publish_first(layout, ME, "ben", "carol")
    questions = await chosen(contexts(layout))
    assert [named(question)[0] for question in questions] == [ME, ME]
    assert [set(named(question)) for question in questions] == [{ME, "ben", "carol"}] * 2
    own = groups_of(first_stage(ME))[1]
    assert questions[1].known_origin().context[0] == str(context_name(own))


async def test_no_more_peers_are_shown_than_the_run_says_and_known_good_ones_come_first(layout: Layout) -> None:
    publish_first(layout, "ben", "carol", "dora", "emil")
    questions = await chosen(contexts(layout, revise={"peers": 2}), "dora", "emil")
    assert [sorted(named(question)) for question in questions] == [["dora", "emil"]] * 2


async def test_without_sharing_a_node_sees_its_own_answers_alone(layout: Layout) -> None:
    publish_first(layout, ME, "ben")
    questions = await chosen(contexts(layout, external_groups=0))
    assert [named(question) for question in questions] == [[ME], [ME]]


@pytest.mark.parametrize("broken", ["other question", "false prompt", "too many groups", "nothing"])
async def test_what_is_not_verified_is_not_shown(layout: Layout, broken: str) -> None:
    files = {
        "other question": lambda: make_rollouts("ben", FIRST),  # drawn as if rounds had one stage
        "false prompt": lambda: spoilt(first_stage("ben"), lambda entry: setattr(entry, "prompt", "What is 1?")),
        "too many groups": lambda: first_stage("ben"),
    }
    if broken in files:
        publish(layout, files[broken]())
    questions = await chosen(contexts(layout, peer_groups=1 if broken == "too many groups" else 64))
    assert questions == [question for _, question in asked()]


# ── peers' questions ────────────────────────────────────────────────────────────────────────────────────────────────
def second_stage(peer: str, context: list[RolloutFile]) -> RolloutFile:
    """A peer's groups of stage 1, with these files' groups in their context."""
    scored: list[ScoredGroup] = []
    for slot, question in asked():
        shown = revised(question, [groups_of(file)[slot] for file in context], 1, module.revising(None, "tiny-2"))
        texts = [f"<answer>{peer} {slot} {number}</answer>" for number in range(4)]
        group = RolloutGroup(peer, *SECOND, slot, shown, tuple(Completion(text, True) for text in texts))
        scored.append(ScoredGroup(group, (0.0,) * 4, (True,) * 4))
    return to_rollout_file(scored, peer, SECOND, 1_700_000_000.0, PolicyInfo(model="ghost"))


def shows_carol() -> RolloutFile:
    """Ben's groups of stage 1, which show carol's."""
    return second_stage("ben", [first_stage("carol")])


class StagedIntake(TestedIntake):
    """Of a run with two stages."""

    def __init__(self, layout: Layout, source: FakeTaskSource | None = None, **settings: Any) -> None:
        super().__init__(layout, source, **settings)
        ctx = make_context(layout, ME, max_stages=2, seed=42, **settings)
        self.contexts = Contexts(ctx, STAGES, self.source)
        self.intake = intake_module.Intake(ctx, STAGES, self.contexts.source, self._on_news)


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    for where in (module, intake_module):
        monkeypatch.setattr(where, "LOOK_AGAIN", 0.01)


async def test_a_peers_group_comes_in_whose_context_is_there(layout: Layout) -> None:
    files = [first_stage("ben"), first_stage("carol")]
    publish_first(layout, "ben", "carol")
    publish(layout, second_stage("ben", files))
    intake = StagedIntake(layout)
    await intake.look(SECOND)
    assert [scored.group.question.prompt for scored in intake.groups("ben", key=SECOND)] == [
        revised(question, [groups_of(file)[slot] for file in files], 1, module.revising(None, "tiny-2")).prompt
        for slot, question in asked()
    ]
    assert intake.refused(3) == {}


async def test_a_context_that_arrives_later_is_waited_for(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    publish(layout, shows_carol())
    intake, looked = StagedIntake(layout), 0
    usual = Contexts._named

    async def named(self: Contexts, *asked: Any) -> RolloutGroup:
        nonlocal looked
        looked += 1
        if looked == MOST_TIMES_MISSED:  # of two groups together
            publish(layout, first_stage("carol"))
        return await usual(self, *asked)

    monkeypatch.setattr(Contexts, "_named", named)
    await intake.look(SECOND)
    assert len(intake.groups("ben", key=SECOND)) == 2
    assert intake.refused(3) == {}


async def test_while_one_file_waits_for_its_context_others_come_in(layout: Layout) -> None:
    publish_first(layout, "dora")
    publish(layout, shows_carol())
    publish(layout, second_stage("dora", [first_stage("dora")]))
    intake = StagedIntake(layout)
    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as tasks:
            await intake.intake.look({SECOND}, frozenset(), tasks)
            sample = await intake.intake.draw(everything(), [("dora", SECOND)], 1e18, tasks)
    assert len(sample.groups) == 2


# ── what strangers can have a node do ───────────────────────────────────────────────────────────────────────────────
class Counting(FakeTaskSource):
    """Remembers which answers it was shown."""

    def __init__(self) -> None:
        super().__init__()
        self.shown: list[str] = []

    async def score(self, origin: Origin, claimed_prompt: str | None, completions: Sequence[Any]) -> GroupScore:
        self.shown += [one.text for one in completions]
        return await super().score(origin, claimed_prompt, completions)


def of_dishonest_names(file: RolloutFile) -> RolloutFile:
    for slot, info in file.groups.items():
        assert info.origin
        context = tuple(f"p{n}/3/0/{slot}/{n:032x}" for n in range(1000))
        info.origin = msgspec.structs.replace(info.origin, context=context)
    return file


def of_another_prompt(file: RolloutFile) -> RolloutFile:
    return spoilt(file, lambda entry: setattr(entry, "prompt", f"{entry.prompt} It is 5."))


REFUSED: dict[str, tuple[str, RolloutFile | None, Callable[[RolloutFile], RolloutFile]]] = {
    "never there": ("context_gone", None, lambda file: file),
    "changed by its author": ("context_gone", first_stage("carol", seed=8), lambda file: file),
    "of names that no honest node writes": ("bad_origin", None, of_dishonest_names),
    "of another prompt": ("question_mismatch", first_stage("carol"), of_another_prompt),
}
"""A context -> why groups are refused in the end, what carol has published, and what ben has made of his file."""


@pytest.mark.parametrize("context", REFUSED)
async def test_answers_are_not_scored_before_their_question_is_known_and_nobody_is_blamed_for_a_lost_context(
    layout: Layout, reads: list[str], context: str
) -> None:
    """Those whose scoring has to be killed would be scored with each look, and count against nobody."""
    reason, of_carol, spoil = REFUSED[context]
    if of_carol:
        publish(layout, of_carol)
    publish(layout, spoil(shows_carol()))
    intake = StagedIntake(layout, source=(source := Counting()))
    await intake.look(SECOND)
    assert intake.groups("ben", key=SECOND) == []
    assert [text for text in source.shown if text.startswith("<answer>ben")] == []
    assert intake.refused(3) == {"ben": {reason: 2}}
    assert intake.intake.close_round(4).quarantined == []
    assert reads[1:] == [] if reason == "bad_origin" else {*reads[1:]} == {"carol"}, "no look into the place for names"


async def test_the_contexts_of_one_file_are_waited_for_once(layout: Layout) -> None:
    publish(layout, shows_carol())
    intake = StagedIntake(layout, source=(source := Counting()))
    await intake.look(SECOND, slots=1)
    looked = len(source.scored)
    await intake.look(SECOND)  # its other group
    assert len(source.scored) == looked + 1
    assert intake.refused(3) == {"ben": {"context_gone": 2}}


async def test_a_file_is_read_once_for_all_groups_that_name_it(layout: Layout, reads: list[str]) -> None:
    publish_first(layout, "carol")
    found = contexts(layout)
    origin, question = groups_of(shows_carol())[0].question.known_origin(), asked()[0][1]
    async with anyio.create_task_group() as tasks:
        for _ in range(8):
            tasks.start_soon(found.again, origin, question)
    assert reads == ["carol"]


async def test_of_strangers_together_no_more_is_read_than_a_few_of_the_largest_files(
    layout: Layout, reads: list[str]
) -> None:
    names = [f"p{number}" for number in range(40)]
    publish_first(layout, *names)
    size = layout.rollout_file(FIRST, names[0]).stat().st_size
    found = contexts(layout, max_file_bytes=2 * size)
    for name in names:
        context = (f"{name}/3/0/0/{0:032x}",)
        with pytest.raises(ProtocolError, match="context_gone"):
            await found.again(msgspec.structs.replace(asked()[0][1].known_origin(), context=context), asked()[0][1])
    assert len(reads) <= 2 * module.STRANGERS_FILES + 1


async def test_files_without_any_text_are_not_held_without_end(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_HELD", 10_000)
    names = [f"p{number}" for number in range(20)]
    for name in names:
        publish(layout, spoilt(first_stage(name), lambda entry: setattr(entry, "response", "")))
    found = contexts(layout)
    for name in names:
        await found._of(FIRST, name)
    assert len(found._held) < 10


async def test_a_peer_that_keeps_the_scorer_busy_does_not_hold_up_the_own_questions(
    layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    class NeverScores(FakeTaskSource):
        async def score(self, *asked: Any) -> GroupScore:
            await anyio.sleep_forever()
            raise AssertionError

    monkeypatch.setattr(module, "PATIENCE", 0.01)
    publish_first(layout, ME, "ben")
    with anyio.fail_after(PATIENCE):
        questions = await chosen(contexts(layout, NeverScores()))
    assert [named(question) for question in questions] == [[ME], [ME]]


async def test_answers_for_which_the_model_has_no_room_are_left_out_the_longest_first(layout: Layout) -> None:
    """One peer's would leave no room for anybody's answers."""
    smile = "\N{WHITE SMILING FACE}" * 240
    publish(layout, spoilt(first_stage("ben"), lambda entry: setattr(entry, "response", smile + entry.response)))
    publish_first(layout, ME, "carol")
    questions = await chosen(contexts(layout), "ben", has_room=lambda prompt: len(prompt.encode()) < 700)
    assert [named(question) for question in questions] == [[ME, "carol"]] * 2
