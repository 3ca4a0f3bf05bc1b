"""Groups of the stage before: chosen for the own questions, found again by the names that others give them."""

from __future__ import annotations

from collections.abc import Sequence
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
from swarm.wire.messages import PolicyInfo, RolloutFile
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


def contexts(layout: Layout, **settings: Any) -> Contexts:
    settings = {"max_stages": 2, "seed": 42, **settings}
    return Contexts(make_context(layout, ME, **settings), STAGES, FakeTaskSource())


async def always(_prompt: str) -> bool:
    return True


def named(question: Question) -> list[str]:
    return [name.peer for name in context_names(question.known_origin())]


# ── the own questions ───────────────────────────────────────────────────────────────────────────────────────────────
def test_all_nodes_are_asked_the_same_in_a_round_and_in_each_of_its_stages() -> None:
    assert STAGES.questions("anna", FIRST, 3) == STAGES.questions("ben", SECOND, 3)
    assert STAGES.questions("anna", FIRST, 3) != STAGES.questions("anna", RoundKey(4), 3)


async def test_a_question_shows_the_own_group_and_those_of_peers_to_the_same_question(layout: Layout) -> None:
    for node in (ME, "ben", "carol"):
        publish(layout, first_stage(node))
    questions = await contexts(layout).choose(SECOND, asked(), frozenset(), always)
    assert [named(question)[0] for question in questions] == [ME, ME]
    assert [set(named(question)) for question in questions] == [{ME, "ben", "carol"}] * 2
    own = groups_of(first_stage(ME))[1]
    assert questions[1].known_origin().context[0] == str(context_name(own))


async def test_no_more_peers_are_shown_than_the_run_says_and_known_good_ones_come_first(layout: Layout) -> None:
    for node in ("ben", "carol", "dora", "emil"):
        publish(layout, first_stage(node))
    rules = {"revise": {"peers": 2}}
    questions = await contexts(layout, **rules).choose(SECOND, asked(), frozenset({"dora", "emil"}), always)
    assert [sorted(named(question)) for question in questions] == [["dora", "emil"]] * 2


async def test_without_sharing_a_node_sees_its_own_answers_alone(layout: Layout) -> None:
    publish(layout, first_stage(ME))
    publish(layout, first_stage("ben"))
    questions = await contexts(layout, external_groups=0).choose(SECOND, asked(), frozenset(), always)
    assert [named(question) for question in questions] == [[ME], [ME]]


@pytest.mark.parametrize("broken", ["other question", "false prompt", "nothing"])
async def test_what_is_not_verified_is_not_shown(layout: Layout, broken: str) -> None:
    if broken == "other question":  # drawn as if rounds had one stage
        publish(layout, make_rollouts("ben", FIRST))
    if broken == "false prompt":
        file = first_stage("ben")
        for entries in file.rollouts.values():
            for entry in entries:
                entry.prompt = "What is 1?"
        publish(layout, file)
    questions = await contexts(layout).choose(SECOND, asked(), frozenset(), always)
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
    for file in files:
        publish(layout, file)
    publish(layout, second_stage("ben", files))
    intake = StagedIntake(layout)
    await intake.look(SECOND)
    assert [scored.group.question.prompt for scored in intake.groups("ben", key=SECOND)] == [
        revised(question, [groups_of(file)[slot] for file in files], 1, module.revising(None, "tiny-2")).prompt
        for slot, question in asked()
    ]
    assert intake.refused(3) == {}


async def test_a_group_without_its_context_is_refused_in_the_end_and_nobody_is_blamed(layout: Layout) -> None:
    publish(layout, second_stage("ben", [first_stage("carol")]))  # carol's file never comes
    intake = StagedIntake(layout)
    await intake.look(SECOND)
    assert intake.groups("ben", key=SECOND) == []
    assert intake.refused(3) == {"ben": {"context_gone": 2}}
    assert intake.intake.close_round(4).quarantined == []


async def test_a_context_that_arrives_later_is_waited_for(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    publish(layout, second_stage("ben", [first_stage("carol")]))
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


async def test_a_context_that_its_author_has_changed_is_gone(layout: Layout) -> None:
    publish(layout, first_stage("carol"))
    publish(layout, second_stage("ben", [first_stage("carol", seed=8)]))
    intake = StagedIntake(layout)
    await intake.look(SECOND)
    assert intake.refused(3) == {"ben": {"context_gone": 2}}


async def test_names_that_no_honest_node_writes_cost_no_look_into_the_place(layout: Layout) -> None:
    file = second_stage("ben", [first_stage("carol")])
    for slot, info in file.groups.items():
        assert info.origin
        origin = msgspec.structs.replace(info.origin, context=tuple(f"p{n}/3/0/{slot}/{n:032x}" for n in range(1000)))
        info.origin = origin
    publish(layout, file)
    intake = StagedIntake(layout)
    await intake.look(SECOND)
    assert intake.refused(3) == {"ben": {"bad_origin": 2}}


async def test_while_one_file_waits_for_its_context_others_come_in(layout: Layout) -> None:
    publish(layout, first_stage("dora"))
    publish(layout, second_stage("ben", [first_stage("carol")]))
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


@pytest.mark.parametrize("context", ["missing", "another prompt"])
async def test_answers_are_not_scored_before_their_question_is_known(layout: Layout, context: str) -> None:
    """Those whose scoring has to be killed would be scored with each look, and count against nobody."""
    file = second_stage("ben", [first_stage("carol")])
    if context != "missing":
        publish(layout, first_stage("carol"))
        for entries in file.rollouts.values():
            for entry in entries:
                entry.prompt += " It is 5."
    publish(layout, file)
    intake = StagedIntake(layout, source=(source := Counting()))
    await intake.look(SECOND)
    assert [text for text in source.shown if text.startswith("<answer>ben")] == []
    assert intake.refused(3) == {"ben": {"context_gone" if context == "missing" else "question_mismatch": 2}}


async def test_the_contexts_of_one_file_are_waited_for_once(layout: Layout) -> None:
    publish(layout, second_stage("ben", [first_stage("carol")]))
    intake = StagedIntake(layout, source=(source := Counting()))
    await intake.look(SECOND, slots=1)
    looked = len(source.scored)
    await intake.look(SECOND)  # its other group
    assert len(source.scored) == looked + 1
    assert intake.refused(3) == {"ben": {"context_gone": 2}}


async def test_a_file_is_read_once_for_all_groups_that_name_it(layout: Layout, reads: list[str]) -> None:
    for peer in ("carol", "ben"):
        publish(layout, first_stage(peer))
    publish(layout, second_stage("ben", [first_stage("carol")]))
    found = contexts(layout)
    origin, question = groups_of(second_stage("ben", [first_stage("carol")]))[0].question.known_origin(), asked()[0][1]
    async with anyio.create_task_group() as tasks:
        for _ in range(8):
            tasks.start_soon(found.again, origin, question)
    assert reads == ["carol"]


async def test_a_file_of_which_no_group_would_be_scored_is_no_context(layout: Layout) -> None:
    publish(layout, first_stage("ben"))
    questions = await contexts(layout, peer_groups=1).choose(SECOND, asked(), frozenset(), always)
    assert questions == [question for _, question in asked()]


async def test_of_strangers_together_no_more_is_read_than_a_few_of_the_largest_files(
    layout: Layout, reads: list[str]
) -> None:
    names = [f"p{number}" for number in range(40)]
    for name in names:
        publish(layout, first_stage(name))
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
        file = first_stage(name)
        for entries in file.rollouts.values():
            for entry in entries:
                entry.response = ""
        publish(layout, file)
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
    for node in (ME, "ben"):
        publish(layout, first_stage(node))
    ctx = make_context(layout, ME, max_stages=2, seed=42)
    with anyio.fail_after(PATIENCE):
        questions = await Contexts(ctx, STAGES, NeverScores()).choose(SECOND, asked(), frozenset(), always)
    assert [named(question) for question in questions] == [[ME], [ME]]


async def test_answers_for_which_the_model_has_no_room_are_left_out_the_longest_first(layout: Layout) -> None:
    """One peer's would leave no room for anybody's answers."""
    file = first_stage("ben")
    for entries in file.rollouts.values():
        for entry in entries:
            entry.response = "\N{WHITE SMILING FACE}" * 240 + entry.response
    for one in (first_stage(ME), file, first_stage("carol")):
        publish(layout, one)

    async def has_room(prompt: str) -> bool:
        return len(prompt.encode()) < 700

    questions = await contexts(layout).choose(SECOND, asked(), frozenset({"ben"}), has_room)
    assert [named(question) for question in questions] == [[ME, "carol"]] * 2
