"""A real server, `transformers serve`, as the generator of completions: they earn what the same model earns here.

What it needs beside torch and transformers lies in `.venv-serving`, made by `make .venv-serving/.installed`, which
`make test-engines` does.
"""

from __future__ import annotations

import os
import re
import shutil
import statistics
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from swarm.errors import ConfigError
from swarm.policy.embedded import embedded_path
from swarm.policy.policy import load_policy
from swarm.policy.settings import GrpoConfig
from swarm.remote.endpoint import EndpointGenerator
from swarm.remote.endpoint_config import EndpointConfig
from swarm.tasks.bounded import Limits
from swarm.tasks.family import QuestionRequest
from swarm.tasks.gym.profiles import SAPO_TASKS
from swarm.tasks.scoring import GroupScore, Scorer
from swarm.types import Completion, Question
from tests.engines.killable import Killable
from tests.engines.s3_servers import ROOT, free_port
from tests.patience import PATIENCE

pytestmark = pytest.mark.engine

PYTHON = ROOT / ".venv-serving" / "bin" / "python"
MODEL = "tiny-2-qwen2-content"
GROUP = 8
MAX_TOKENS = 48
MARK = re.compile(r"<\|\w+\|>")
Answer = Callable[[list[Question]], list[list[tuple[Completion, ...]]]]


@contextmanager
def transformers_serve(model: Path, home: Path) -> Iterator[str]:
    """The server with one model, on loopback; its base URL."""
    if not PYTHON.exists():
        pytest.fail(f"{PYTHON} is missing: make .venv-serving/.installed")
    port = free_port()
    library = find_spec("transformers")
    assert library
    assert library.origin
    libraries = str(Path(library.origin).parents[1])
    environ = os.environ | {
        "PYTHONPATH": libraries,
        "HF_HUB_OFFLINE": "1",
        "HF_HOME": str(home),
        "OMP_NUM_THREADS": "1",
    }
    serve: list[str | Path] = [PYTHON, "-m", "transformers.cli.transformers", "serve"]

    def answers() -> bool:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5):
            return True

    with (
        (home / "server.log").open("wb") as log,
        Killable(
            [*serve, "--host", "127.0.0.1", "--port", str(port), model], answers, env=environ, stdout=log, stderr=log
        ).at_work(),
    ):
        yield f"http://127.0.0.1:{port}/v1"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    folder = tmp_path_factory.mktemp("serving")
    model = folder / "model"
    shutil.copytree(embedded_path(MODEL), model)
    with transformers_serve(model, folder) as url:
        yield url, model


def scored(requests: list[QuestionRequest], answer: Answer) -> tuple[list[Question], list[list[GroupScore]]]:
    """The questions, and the scores of what `answer` gives for them, for each list of groups."""

    async def main() -> tuple[list[Question], list[list[GroupScore]]]:
        async with Scorer(limits=Limits(wall_s=60.0)) as scorer:
            questions = await scorer.make(requests)
            given = await anyio.to_thread.run_sync(answer, questions)
            return questions, [
                [
                    await scorer.score(question.known_origin(), question.prompt, [each.text for each in group])
                    for question, group in zip(questions, groups, strict=True)
                ]
                for groups in given
            ]

    return anyio.run(main)


@pytest.mark.xdist_group("serving")
def test_completions_of_a_real_server_are_trimmed_and_earn_what_the_same_model_earns_here(
    served: tuple[str, Path],
) -> None:
    url, model = served
    config = EndpointConfig(
        base_url=url, model=str(model), max_tokens=MAX_TOKENS, concurrency=2, patience=PATIENCE, key_variable=""
    )
    generator = EndpointGenerator(config)
    assert generator.check() == "chat"
    given: list[list[tuple[Completion, ...]]] = []

    def answer(questions: list[Question]) -> list[list[tuple[Completion, ...]]]:
        prompts = [question.prompt for question in questions]
        here = load_policy(MODEL, GrpoConfig(max_new_tokens=MAX_TOKENS), device="cpu")
        given[:] = [each.generate(prompts, group_size=GROUP, seed=1) for each in (generator, here)]
        return given

    requests = [QuestionRequest(task, "tiny-2", 100 + number) for task in SAPO_TASKS for number in range(2)]
    questions, scores = scored(requests, answer)

    remote = given[0]
    assert {len(group) for group in remote} == {GROUP}
    for question, group in zip(questions, remote, strict=True):
        left = [each.text for each in group if question.prompt in each.text or MARK.search(each.text)]
        assert not left, "the prompt, or marks of its template"
    assert generator.usage.replies == 1 + GROUP * len(questions)
    assert generator.usage.tokens_estimated == 0

    theirs, ours = ([reward for score in side for reward in score.rewards] for side in scores)
    spread = (statistics.variance(ours) / len(ours) + statistics.variance(theirs) / len(theirs)) ** 0.5
    assert abs(statistics.mean(ours) - statistics.mean(theirs)) < 5 * spread
    closed, closed_here = (statistics.mean(flag for score in side for flag in score.answered) for side in scores)
    assert min(closed, closed_here) > 0.8
    ended, ended_here = (statistics.mean(each.finished for group in side for each in group) for side in given)
    assert abs(ended - ended_here) < 0.2


@pytest.mark.xdist_group("serving")
def test_a_real_server_says_what_it_refuses(served: tuple[str, Path]) -> None:
    url, model = served
    for wrong, said in (
        ({"model": "another"}, "Server is pinned to"),
        ({"extra_body": '{"bogus": 1}'}, "Unexpected fields"),
        ({"base_url": url.removesuffix("/v1")}, "HTTP 404: Not Found"),
    ):
        settings = {"base_url": url, "model": str(model), "key_variable": "", **wrong}
        with pytest.raises(ConfigError, match=said):
            EndpointGenerator(EndpointConfig(**settings)).check()  # type: ignore[arg-type]
