"""Which exam questions were asked in a training: counted from the seeds alone, without the runs.

    python -m benchmarks.seen_questions --seeds 531 532 533 [--local 8] [--nodes 8] [--rounds 100] [--questions 8]

Per task and seed: how many of the exam's texts any node was asked while it trained. A seed of the exam is in no
training, but small tasks have few texts, so some of them are.
"""

from __future__ import annotations

import argparse
from typing import Final

from swarm.algo.seeds import held_out_seed
from swarm.config import Settings
from swarm.judge.exam import EXAM_SEED
from swarm.node.sharing.admission import questions_of
from swarm.tasks.family import QuestionRequest
from swarm.tasks.gym.family import GYM
from swarm.tasks.universe import universe_of
from swarm.types import RoundKey

PROFILE: Final = "tiny-2"


def main() -> None:
    """Print the counts."""
    asked = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    asked.add_argument("--seeds", type=int, nargs="+", required=True)
    asked.add_argument("--local", type=int, default=8)
    asked.add_argument("--nodes", type=int, default=8)
    asked.add_argument("--rounds", type=int, default=100)
    asked.add_argument("--questions", type=int, default=8)
    given = asked.parse_args()
    behaviour = GYM.behaviour()
    behaviour.prepare()

    def text(request: QuestionRequest) -> str:
        return behaviour.make(request.origin(GYM.version)).prompt

    def exam(task: str) -> list[str]:
        seeds = (held_out_seed(EXAM_SEED, "exam", PROFILE, task, number) for number in range(given.questions))
        return [text(QuestionRequest.named(task, PROFILE, seed)) for seed in seeds]

    universe, counts = universe_of(Settings(profile=PROFILE)), dict[str, list[int]]()
    papers = {task: exam(task) for task in universe.profiles}
    for run_seed in given.seeds:
        run = questions_of(Settings(profile=PROFILE, seed=run_seed), universe)
        nodes = [f"worker-{number}" for number in range(given.nodes)]
        slots = ((node, RoundKey(round_)) for round_ in range(given.rounds) for node in nodes)
        seen = {text(request) for slot in slots for request in run.questions(*slot, given.local)}
        for task, paper in papers.items():
            counts.setdefault(task, []).append(sum(one in seen for one in paper))
    print(f"of {given.questions} exam questions of each task, asked in the training of seeds {given.seeds}")
    for task, found in counts.items():
        print(f"{task:24s} {' '.join(map(str, found))}")


if __name__ == "__main__":
    main()
