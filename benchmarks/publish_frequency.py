"""A round at each publish frequency, side by side: nodes of the embedded model on one machine.

    stage, round   all groups of a round in one file, when they are generated and scored
    generation     each group in a file of its own once its completions are written; the last file names the others

Swarms of one seed take turns; their rounds are the same to the last digit, which is checked. `short`: completions
as the model's default has them. `long`: up to 96 tokens, so that groups whose completions end early are published
while others are written.

Predicted: with `short` a loss, since groups end almost together, a group more is a file and two fsyncs more, and on two
cores nothing is idle that they could hide behind; with `long` a tie in rounds, and less gathering, because what will be
drawn is verified before the last group is there.
"""

from __future__ import annotations

import statistics
import sys

from benchmarks.common import arguments_of, keep
from benchmarks.swarms import SwarmRun, run_swarm

FREQUENCIES = ("stage", "round", "generation")
LENGTHS = {"short": {}, "long": {"SWARM_MAX_NEW_TOKENS": "96"}}
COLUMNS = ("seconds_generate", "seconds_publish", "seconds_gather", "seconds_round")


def measured(runs: list[SwarmRun]) -> dict[str, float]:
    """Medians over all rows of some runs of one kind, in seconds; of a node and round its bytes, and files on average.

    `first_group`: from the beginning of a node's round until peers can read a group of it.
    """
    rows = [row for run in runs for row in run.rows]
    found = {column: statistics.median(getattr(row, column) for row in rows) for column in COLUMNS}
    found["publish_to_pool"] = statistics.median(wait for row in rows for wait in row.publish_to_pool)
    found["seconds_per_round"] = statistics.median(run.seconds_per_round for run in runs)
    found["bytes_published"] = statistics.median(row.bytes_published for row in rows)
    came = [(row, run.published[row.node_id, row.round]) for run in runs for row in run.rows]
    found["files"] = statistics.mean(len(files) for _, files in came)
    found["first_group"] = statistics.median(files[0] - (row.timestamp - row.seconds_round) for row, files in came)
    return {name: round(value, 4) for name, value in found.items()}


def outcome(run: SwarmRun) -> list[tuple[object, ...]]:
    """What has to be the same at all frequencies."""
    return sorted((row.node_id, row.round, row.my_reward, row.loss, row.grad_norm, *row.trained_on) for row in run.rows)


def main() -> int:
    parser = arguments_of(__doc__)
    parser.add_argument("--nodes", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=22)
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--lengths", nargs="+", choices=LENGTHS, default=list(LENGTHS))
    parser.add_argument("--in-process", action="store_true", help="all nodes in one process")
    given = parser.parse_args()
    if given.quick:
        given.rounds, given.repetitions = 4, 1
    found: dict[str, object] = {"nodes": given.nodes, "rounds": given.rounds, "repetitions": given.repetitions}
    flags = ["--in-process"] if given.in_process else []
    for length, settings in ((length, LENGTHS[length]) for length in given.lengths):
        runs: dict[str, list[SwarmRun]] = {frequency: [] for frequency in FREQUENCIES}
        for _ in range(given.repetitions):
            for frequency in FREQUENCIES:
                environment = {**settings, "ROLLOUT_PUBLISH_FREQUENCY": frequency}
                runs[frequency].append(run_swarm(given.nodes, given.rounds, *flags, settings=environment))
        first, *others = [outcome(run) for of_one in runs.values() for run in of_one]
        found[length] = {
            **{frequency: measured(of_one) for frequency, of_one in runs.items()},
            "same_rounds": all(other == first for other in others),
        }
    keep("publish_frequency", found, given)
    return 0


if __name__ == "__main__":
    sys.exit(main())
