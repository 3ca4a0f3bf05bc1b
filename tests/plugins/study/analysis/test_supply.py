"""Informative groups per node and round: by theory, against simulation by hand, and out of a run's rounds."""

from __future__ import annotations

from random import Random
from statistics import fmean

import msgspec
import pandas as pd
import pytest

from swarm.plugins.study.analysis.measures import agent_average
from swarm.plugins.study.analysis.supply import expected_informative, supply_by_configuration
from swarm.plugins.study.record import ConfigurationRecord
from tests.plugins.study.analysis.frames_by_hand import make_metrics
from tests.plugins.study.report.report_factory import make_record


def simulated(nodes: int, local: int, external: int, successes: list[float], group_size: int) -> float:
    """The mean over many rounds of what one node of such a swarm trains on."""
    rng = Random(7)

    def informative() -> bool:
        p = rng.choice(successes)
        return 0 < sum(rng.random() < p for _ in range(group_size)) < group_size

    def one_round() -> int:
        own, pool = (sum(informative() for _ in range(groups)) for groups in (local, (nodes - 1) * local))
        return own + min(external, pool)

    return fmean(one_round() for _ in range(4000))


@pytest.mark.parametrize(("nodes", "local", "external"), [(1, 4, 4), (2, 4, 4), (8, 4, 4), (8, 2, 6), (4, 8, 0)])
def test_the_expected_number_is_the_mean_of_a_simulation(nodes: int, local: int, external: int) -> None:
    successes = [0.0, 0.02, 0.3, 1.0]
    share = fmean(1 - p**4 - (1 - p) ** 4 for p in successes)
    expected = expected_informative(nodes, local, external, share)
    assert expected == pytest.approx(simulated(nodes, local, external, successes, 4), rel=0.05)


def test_the_rows_of_runs_tell_what_was_expected_and_what_came() -> None:
    record = make_record("s", ("8/0", "4/4"), (1,), ("alice", "bob"), 3)
    settings = ({"local_groups": 8, "external_groups": 0}, {"local_groups": 4, "external_groups": 4})
    record = msgspec.structs.replace(
        record,
        configurations=tuple(
            ConfigurationRecord(name=one.name, settings=own, nodes=nodes)
            for one, own, nodes in zip(record.configurations, settings, (2, 4), strict=True)
        ),
    )
    metrics = pd.concat(
        [
            make_metrics([[0.1, 0.3]] * 3, "8/0", local_groups=8, zero_advantage_local=0.75, external_groups=0),
            make_metrics([[0.2, 0.4]] * 3, "4/4", local_groups=4, zero_advantage_local=0.75, external_groups=2),
        ]
    )
    alone, shared = supply_by_configuration(agent_average(metrics), record).to_dict("records")
    assert (alone["nodes"], alone["local"], alone["external"]) == (2, 8, 0)
    assert (alone["share"], alone["expected_start"], alone["measured"]) == (0.25, 2.0, 2.0)
    assert (shared["measured"], shared["reward"]) == (3.0, pytest.approx(0.3))
    assert shared["expected"] == pytest.approx(expected_informative(4, 4, 4, 0.25))
