"""Environments of the real library as tasks; `make test-engines` has an environment with it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from swarm.algo.seeds import HELD_OUT_SEEDS
from swarm.config.own_code import OwnCode
from swarm.errors import ConfigError, ProtocolError
from swarm.plugins.verifiers import family
from swarm.plugins.verifiers.definition import VerifiersDefinition
from swarm.plugins.verifiers.environment import open_environment
from swarm.plugins.verifiers.rows import load_rows, rows_digest, source_digest
from swarm.tasks.registry import Families, complete
from swarm.tasks.scoring import Scorer
from swarm.types import Completion, Turn
from tests.plugins.verifiers.environments import GUESS, SUMS, write
from tests.unit.tasks.dataset.making import prepared, request

pytest.importorskip("verifiers", reason="the extra `verifiers` is not installed; `make test-engines` has it")
pytestmark = pytest.mark.filterwarnings("default")  # of the libraries that it brings


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder whose modules this process and its children import, without their imports staying here."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(family, "_look", look_here)
    yield tmp_path
    for name, module in [*sys.modules.items()]:
        if str(getattr(module, "__file__", "")).startswith(str(tmp_path)):
            del sys.modules[name]


def look_here(definition: VerifiersDefinition) -> family.Told:
    """What a child would tell, without its start of some seconds."""
    opened = open_environment(definition)
    return family.Told(source_digest(opened), rows_digest(load_rows(opened)))


def task(packages: Path, text: str, name: str, **parameters: Any) -> tuple[Families, dict[str, Any]]:
    write(packages, name, text)
    return prepared(packages, verifiers=name.replace("_", "-"), **parameters)


def test_a_turn_is_asked_with_the_system_prompt_and_rewarded_by_weights_over_their_sum(packages: Path) -> None:
    families, parameters = task(packages, SUMS, "one_sum", args={"largest": 20})
    questions = [families.make(request("mine", parameters, seed)) for seed in (1, 2, 1)]
    assert questions[0] == questions[2] != questions[1]
    first = questions[0]
    assert first.prompt.startswith("Be brief.\n\n")
    assert first.turns == 1
    assert first.answer is None
    answers = (rf"It is \boxed{{{first.metadata['key']}}}.", r"\boxed{0}", "<answer>0</answer>")
    assert [families.score_conversation(first, [answer]) for answer in answers] == [1.0, 0.2, 0.0]


def test_a_game_replies_anew_from_its_start_and_ends_with_the_agents_turns(packages: Path) -> None:
    families, parameters = task(packages, GUESS, "game", rows=50)
    (seed,) = [seed for seed in range(99) if _wins(families, parameters, seed, "7")][:1]
    question = families.make(request("mine", parameters, seed))
    assert question.turns == 5
    assert families.reply(question, ["9", "3"]) == "It is higher."
    assert families.reply(question, ["9"]) == "It is lower."
    assert families.reply(question, ["9", "7"]) is None
    assert families.score_conversation(question, ["9", "3", "7"]) == pytest.approx(0.8)
    assert families.score_conversation(question, ["9"] * 5) == 0.0
    assert families.score_conversation(question, ["9", None]) == 0.0


def _wins(families: Families, parameters: dict[str, Any], seed: int, guess: str) -> bool:
    return families.score_conversation(families.make(request("mine", parameters, seed)), [guess]) == 1.0


def test_a_node_imports_nothing_and_learns_both_digests_of_a_child(
    packages: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    monkeypatch.setenv("PYTHONPATH", str(packages))
    write(packages, "afar", SUMS)
    found = complete({"mine": {"verifiers": OwnCode("afar")}}, packages)
    assert "afar" not in sys.modules
    monkeypatch.syspath_prepend(packages)
    Families((), found).prepare()
    write(packages, "broken", "raise SystemExit('no')")
    with pytest.raises(ConfigError, match=r"\[tasks\.mine\]: the environment broken cannot be had: SystemExit: no"):
        complete({"mine": {"verifiers": OwnCode("broken")}}, packages)


def test_it_is_played_in_confined_children(packages: Path) -> None:
    _, parameters = task(packages, GUESS, "confined", rows=50)
    anyio.run(_played_confined, parameters)


async def _played_confined(parameters: dict[str, Any]) -> None:
    async with Scorer(1, (), {"mine": parameters}) as scorer:
        (question,) = await scorer.make([request("mine", parameters, 3)])
        origin = question.known_origin()
        (reply,) = (await scorer.reply(origin, [["0"]])).replies
        assert reply == "It is higher."
        talks = [Completion(str(last), True, earlier=(Turn("0", True, reply),)) for last in range(1, 10)]
        found = await scorer.score(origin, question.prompt, talks)
        assert sorted(found.rewards) == [0.0] * 8 + [0.9]
        with pytest.raises(ProtocolError, match="reply_mismatch"):
            await scorer.score(origin, None, [Completion("1", True, earlier=(Turn("0", True, "It is lower."),))])


def test_judges_and_exams_ask_other_rows_where_some_are_held_out(packages: Path) -> None:
    families, parameters = task(packages, SUMS, "parted", held_out=0.3)
    first = HELD_OUT_SEEDS[0]
    asked = {families.make(request("mine", parameters, seed)).prompt for seed in range(60)}
    judged = {families.make(request("mine", parameters, first + seed)).prompt for seed in range(60)}
    assert asked
    assert judged
    assert not asked & judged


def test_other_source_and_other_rows_are_refused(packages: Path) -> None:
    _, parameters = task(packages, SUMS, "changing")
    for key, what in (("source_sha256", "the package of changing"), ("sha256", "what changing asks")):
        other = parameters | {key: "0" * 64}
        with pytest.raises(ConfigError, match=rf"\[tasks\.mine\]: {what} has SHA-256 .* expected 000"):
            Families((), {"mine": other}).prepare()


RIGHT = "float(vf.extract_boxed_answer(trace.last_reply, strict=True) == self.data.answer)"
REWARD = "    @vf.reward\n    async def right"
FIRST = "    async def run(self, task, agents):\n"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (SUMS.replace(RIGHT, "float(bool(__import__('socket').socket()))"), "tried socket.__new__.*a judge's"),
        (SUMS.replace(RIGHT, "float(open('/etc/hostname').read() == '')"), "tried open /etc/hostname"),
        (SUMS.replace(RIGHT, "float(__import__('subprocess').call(['true']))"), "tried subprocess.Popen true"),
        (SUMS.replace(RIGHT, "__import__('time').time() % 1"), "gave 'reward .* not deterministic"),
        (SUMS.replace(RIGHT, "float(__import__('os').urandom(1)[0]) / 256"), "not deterministic"),
        (SUMS.replace(RIGHT, "1 / 0"), "failed: TaskError: .*ZeroDivisionError"),
        (SUMS.replace("right(self, trace)", "right(self, trace, runtime)").replace(RIGHT, "await runtime.read('/a')"),
         "failed: SandboxError: there is no sandbox"),
        (SUMS.replace("@vf.reward\n", "@vf.reward(weight=-1.0)\n").replace("(weight=0.25)", "(weight=-0.5)"),
         r"none of its rewards has a weight above 0 \(.*\): say best"),
        (SUMS.replace("random.Random(0)", "random.Random()"), "what odd asks has SHA-256"),
        (SUMS.replace("Task[Data]):", "Task[Data]):\n    NEEDS_CONTAINER = True"), "needs a container"),
        (SUMS.replace(REWARD, "    @vf.stop\n    async def enough(self, trace: vf.Trace): return False\n" + REWARD),
         r"by hooks \(@vf.stop"),
        ("def load_environment(): pass", "is an environment of verifiers before 0.4"),
        ("import no_such_module_anywhere", "cannot be had: ModuleNotFoundError: .*no_such_module_anywhere"),
        (GUESS.replace("player: vf", "judge: vf.AgentConfig = vf.AgentConfig()\n    player: vf"),
         r"has 2 agents \(judge, player\)"),
        (GUESS.replace("max_turns=5", ""), "converses and does not say how long: say turns, 2 to 16"),
        (GUESS.replace("max_turns=5", "max_turns=40"), "has 40 turns, a conversation up to 16: say turns"),
        (GUESS.replace(FIRST, FIRST + "        await agents.player.run(task)\n"), "runs its agent several times"),
        (GUESS.replace(FIRST, FIRST + "        import asyncio; await asyncio.to_thread(int)\n"), "NotImplementedError"),
    ],
)  # fmt: skip
def test_what_a_swarm_cannot_ask_is_refused_with_the_reason(packages: Path, text: str, problem: str) -> None:
    assert text not in (SUMS, GUESS)
    with pytest.raises(ConfigError, match=rf"(?s)^\[tasks\.mine\]: .*{problem}") as raised:
        task(packages, text, "odd", rows=30)
    assert str(raised.value).count("[tasks.mine]") == 1


def test_what_draws_from_the_global_state_is_seeded_by_the_question(packages: Path) -> None:
    text = SUMS.replace(RIGHT, "float(random.random() < 0.5)")
    families, parameters = task(packages, text, "chance")
    questions = [families.make(request("mine", parameters, seed)) for seed in range(20)]
    rewards = [[families.score_conversation(question, ["?"]) for question in questions] for _ in range(2)]
    assert rewards[0] == rewards[1]
    assert len(set(rewards[0])) == 2


def test_the_best_that_an_episode_can_earn_may_be_said(packages: Path) -> None:
    families, parameters = task(packages, SUMS, "scaled", best=2.5)
    question = families.make(request("mine", parameters, 1))
    assert families.score_conversation(question, [rf"\boxed{{{question.metadata['key']}}}"]) == 0.5
