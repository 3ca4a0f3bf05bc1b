"""What every task family keeps, whether it is the core's or a plugin's."""

from __future__ import annotations

import json
import subprocess
import sys

from swarm.tasks.definitions import FAMILY_OF_KEY
from swarm.tasks.family import QuestionRequest
from swarm.tasks.registry import Families


def makes_and_scores_the_same_elsewhere(family: str) -> None:
    """Asserts that two processes with other hash seeds make the same questions and rewards."""
    code = f"""
import json, msgspec, sys
from swarm.tasks.family import QuestionRequest
from swarm.config.own_code import of_the_user
from swarm.tasks.registry import Families
families, found = Families(of_the_user("task_families", [{family!r}])), []
families.prepare()
for profile, tasks in families.profiles().items():
    for task in tasks:
        for seed in (0, 2**31 - 1):
            question = families.make(QuestionRequest.named(task, profile, seed))
            found.append([question, families.score(question, question.answer or 'P'), families.score(question, '?')])
sys.stdout.buffer.write(msgspec.json.encode(found))
"""
    one, other = (
        subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, env={"PYTHONHASHSEED": seed})
        for seed in ("1", "2")
    )
    assert one.stdout == other.stdout
    for question, right, wrong in json.loads(one.stdout):
        assert question["prompt"]
        assert 0.0 <= wrong < right <= 1.0 or question["answer"] is None


def is_light_and_its_questions_say_where_they_come_from(family: str) -> None:
    """Asserts that names import no library, and that a question can be asked again by what it says of itself."""
    code = f"""
import sys
from swarm.config.own_code import of_the_user
from swarm.tasks.registry import Families
families = Families(of_the_user("task_families", [{family!r}]))
families.profiles(), families.versions, families.packages
print([name for name in ("reasoning_gym", "numpy", "torch", "asyncio") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
    families = Families([family])
    assert families.profiles().keys() >= {"tiny", "paper"} or family in FAMILY_OF_KEY.values()
    for profile, tasks in families.profiles().items():
        for task in tasks:
            request = QuestionRequest.named(task, profile, 5)
            question = families.make(request)
            assert question.origin == families.origin(request)
            assert question.task == request.full_task == task
            assert QuestionRequest.of(question.known_origin()) == request
