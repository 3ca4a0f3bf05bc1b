"""A metrics row stays of a bounded size, whoever publishes."""

from __future__ import annotations

from swarm.node.sharing.selection import MOST_NAMED, OTHERS, IntakeCounts
from swarm.wire.metrics import MetricsRow


def filled(counts: IntakeCounts) -> MetricsRow:
    row = MetricsRow(timestamp=0.0, round=0, stage=0, node_id="a", experiment="e", my_reward=0.0, total_agents=1)
    counts.fill(row)
    return row


def test_of_many_refused_peers_the_worst_are_named_and_the_others_summed_up() -> None:
    counts = IntakeCounts()
    counts.refused_by_peer[OTHERS]["flood"] = 10**6
    for number in range(MOST_NAMED + 10):
        counts.refused_by_peer[f"n{number:03}"]["malformed"] = 2 if number % 2 else 1
        counts.false_claims[f"n{number:03}"] = 1 + number
    named = counts.refused_named()
    assert len(named) == MOST_NAMED
    assert {f"n{number:03}" for number in range(1, MOST_NAMED + 10, 2)} < named.keys()
    assert sum(sum(reasons.values()) for reasons in named.values()) == sum(counts.refused.values())
    assert named[OTHERS]["flood"] == 10**6
    assert "malformed" in named[OTHERS]
    claims = filled(counts).false_claims
    assert len(claims) == MOST_NAMED + 1
    assert sum(claims.values()) == counts.false_claims.total()


def test_of_few_all_are_named() -> None:
    counts = IntakeCounts()
    counts.refused_by_peer["mallory"]["ragged"] += 1
    counts.refused_by_peer["mallory"]["malformed"] += 2
    counts.accepted_by_peer["bob"] += 3
    row = filled(counts)
    assert row.refused_by_peer == {"mallory": {"malformed": 2, "ragged": 1}}
    assert (row.accepted_by_peer, row.false_claims, row.quarantined) == ({"bob": 3}, {}, [])
    assert counts.refused == {"malformed": 2, "ragged": 1}
