"""Task families: what each has to keep, and a second one from a node's draw to its peers' rewards."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import anyio
import msgspec
import pytest

from swarm.config import Settings, load_settings
from swarm.config.names import TASK_FAMILIES
from swarm.config.own_code import OwnCode
from swarm.errors import ConfigError, ProtocolError
from swarm.node.sharing.admission import Admission, AssignedQuestions
from swarm.node.sharing.verification import score_groups, verify
from swarm.provenance import versions
from swarm.tasks.bounded import Limits
from swarm.tasks.family import QuestionRequest
from swarm.tasks.registry import FAMILIES, Families
from swarm.tasks.scoring import GroupScore, Scorer
from swarm.tasks.universe import Universe, universe_of
from swarm.types import FIRST_FAMILY, Completion, Origin, Question, RolloutGroup, RoundKey, ScoredGroup
from swarm.wire.codec import decode, encode, to_claims, to_groups, to_rollout_file
from swarm.wire.messages import PolicyInfo, RolloutFile
from tests.distributions import install
from tests.unit.node.factories import make_settings
from tests.unit.tasks.family_contract import (
    is_light_and_its_questions_say_where_they_come_from,
    makes_and_scores_the_same_elsewhere,
)
from tests.unit.tasks.sums import SPEC

BOTH = (FIRST_FAMILY, SPEC)
KEY = RoundKey(3)
ROOM = Limits(wall_s=60.0)
TASKS = ("sums/short", "bf", "sums/long")


def asked(settings: Settings) -> tuple[str, ...]:
    return tuple(universe_of(settings).profiles)


# ── what every family keeps ─────────────────────────────────────────────────────────────────────────────────────────
@pytest.mark.parametrize("family", [*FAMILIES, SPEC])
def test_another_process_makes_and_scores_the_same(family: str) -> None:
    """Its names are light and plain, too, and its questions say where they come from."""
    makes_and_scores_the_same_elsewhere(family)
    is_light_and_its_questions_say_where_they_come_from(family)


# ── by name ─────────────────────────────────────────────────────────────────────────────────────────────────────────
def test_tasks_of_the_first_family_have_their_bare_names_and_those_of_others_say_whose_they_are() -> None:
    tiny = Families(BOTH).profiles()["tiny"]
    assert (len(tiny), tiny[0], tiny[-2:]) == (11, "base_conversion", ("sums/short", "sums/long"))
    assert QuestionRequest.named("sums/short", "tiny", 1) == QuestionRequest("short", "tiny", 1, family="sums")
    assert QuestionRequest.named("bf", "tiny", 1).family == FIRST_FAMILY


@pytest.mark.parametrize(
    ("chosen", "said"),
    [
        (("no_such_module:FAMILY",), "No module named 'no_such_module'"),
        (("swarm.types:FAMILY",), "has no attribute 'FAMILY'"),
        (("jsonl",), "'jsonl' cannot be loaded"),
        (("swarm.tasks:__name__",), "cannot be loaded"),
        (("tests.unit.tasks.sums:IMPOSTOR",), "is called 'reasoning-gym', a name that your own family cannot have"),
        ((SPEC, "tests.unit.tasks.sums:NEXT_SUMS"), "two families of one name"),
    ],
)
def test_a_family_that_cannot_be_had_names_the_setting_and_what_is_there(chosen: tuple[str, ...], said: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(said)) as refused:
        Families(map(OwnCode, chosen))
    assert "SWARM_TASK_FAMILIES" in str(refused.value)
    assert "name one of reasoning-gym, or an object" in str(refused.value)


def test_the_cores_families_look_no_plugin_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("swarm.entry_points.bundled", None)
    monkeypatch.setattr("swarm.entry_points.found", None)
    assert Families([*FAMILIES]).versions.keys() == FAMILIES.keys()


def test_a_family_of_ours_that_is_not_there_is_taken_from_nobody_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = {"swarm.tasks": dict.fromkeys(TASK_FAMILIES, "tests.unit.tasks.sums:SUMS")}
    for name, groups in (("swarm-sapo", {}), ("theirs", theirs)):
        monkeypatch.syspath_prepend(install(tmp_path / name, name, groups))
    families = load_settings({}, {"SWARM_TASK_FAMILIES": ",".join(TASK_FAMILIES)}).task_families
    assert families == TASK_FAMILIES
    for family in {*TASK_FAMILIES} - FAMILIES.keys():
        with pytest.raises(ConfigError, match=rf"{family}, which SWARM_TASK_FAMILIES .* install swarm again"):
            Families([family])


def test_a_node_asks_all_tasks_of_its_families_or_those_that_it_names(tmp_path: Path) -> None:
    families = {"task_families": BOTH, "profile": "tiny"}
    assert asked(make_settings(tmp_path, **families))[-1] == "sums/long"
    assert asked(make_settings(tmp_path, **families, tasks=TASKS)) == TASKS
    with pytest.raises(ConfigError, match="has no task 'sums/short'"):
        asked(make_settings(tmp_path, tasks=TASKS))


def test_the_packages_of_the_families_are_recorded_and_other_families_make_another_experiment(tmp_path: Path) -> None:
    recorded = versions(make_settings(tmp_path, task_families=(SPEC,)))
    assert ("msgspec" in recorded, FIRST_FAMILY in recorded, FIRST_FAMILY in versions()) == (True, False, True)
    usual, other = make_settings(tmp_path), make_settings(tmp_path, task_families=BOTH)
    assert "task_families" not in usual.experiment_identity(), "as in files of earlier versions"
    assert other.experiment_identity()["task_families"] == list(BOTH)


# ── from a node's draw to its peers' rewards ────────────────────────────────────────────────────────────────────────
def answered(question: Question, slot: int, *answers: str) -> RolloutGroup:
    completions = tuple(Completion(f"<answer>{answer}</answer>", True) for answer in answers)
    return RolloutGroup("anna", *KEY, slot, question, completions)


def admission(tasks: tuple[str, ...] = TASKS) -> Admission:
    return Admission(Settings(profile="tiny"), AssignedQuestions(42, Universe.of(tasks, "tiny")))


async def annas_file(scorer: Scorer) -> tuple[bytes, list[Question]]:
    """What a node draws, answers and publishes."""
    questions = await scorer.make(AssignedQuestions(42, Universe.of(TASKS, "tiny")).questions("anna", KEY, 6))
    groups = [answered(one, slot, one.answer or "", "?") for slot, one in enumerate(questions)]
    scores = zip(groups, await score_groups(scorer, groups), strict=True)
    scored = [ScoredGroup(group, one.rewards, one.answered) for group, one in scores if isinstance(one, GroupScore)]
    return encode(to_rollout_file(scored, "anna", KEY, 1.0, PolicyInfo(model="m"))), questions


def test_a_peer_makes_compares_and_scores_questions_of_two_families_in_one_file() -> None:
    async def main() -> None:
        async with Scorer(1, BOTH, limits=ROOM) as annas, Scorer(1, BOTH[::-1], limits=ROOM) as bens:
            data, questions = await annas_file(annas)
            assert {question.origin.family for question in questions if question.origin} == {FIRST_FAMILY, "sums"}
            file = decode(data, RolloutFile, "anna's")
            groups = to_groups(file, "anna", KEY)
            assert admission().refusals("anna", KEY, groups) == [None] * 6
            verdicts = [v async for part in verify(bens, groups, to_claims(file), trusting=True) for v in part]
            assert [v.scored and v.scored.rewards for v in verdicts] == [(1.0, 0.0)] * 6
            assert [v.false_claims for v in verdicts] == [0] * 6
            said = msgspec.json.decode(data)["groups"]
            assert {(group["task"], group["origin"].get("family")) for group in said.values()} == {
                (question.task, "sums" if question.task.startswith("sums/") else None) for question in questions
            }

    anyio.run(main)


def test_a_family_that_the_reader_was_not_started_with_is_refused_by_name_and_never_imported() -> None:
    def reason(families: Families, origin: Origin) -> str:
        with pytest.raises(ProtocolError) as refused:
            families.regenerate(origin)
        return refused.value.reason

    for family in ("sums", str(SPEC), "antigravity:FAMILY", "", "x" * 5000):
        assert reason(Families(), Origin("short", "tiny", 1, 0, "1", family)) == "unknown_family"
    with pytest.raises(ProtocolError, match="family must be one of reasoning-gym, got 'sums'"):
        Families().make(QuestionRequest("short", "tiny", 1, family="sums"))
    next_ = Families([OwnCode("tests.unit.tasks.sums:NEXT_SUMS")])
    assert reason(next_, Origin("short", "tiny", 1, 0, "1", "sums")) == "gym_version"
    assert reason(next_, Origin("none", "tiny", 1, 0, "2", "sums")) == "unknown_task"
    assert reason(next_, Origin("bf", "tiny", 1, 0, "0.1.25")) == "unknown_family"
    assert "antigravity" not in sys.modules


def test_the_same_task_of_another_family_is_not_the_question_that_was_drawn() -> None:
    (asked,) = AssignedQuestions(42, Universe.of(("sums/short",), "tiny")).questions("anna", KEY, 1)
    own = Question("?", asked.origin("1"))
    other = Question("?", msgspec.structs.replace(asked.origin("1"), family="more-sums"))
    refusals = [admission(("sums/short",)).refusals("anna", KEY, [answered(q, 0, "1", "2")])[0] for q in (own, other)]
    assert [refusal and refusal.reason for refusal in refusals] == [None, "outside_universe"]
