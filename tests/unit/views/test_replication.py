"""What status says of a replicated folder."""

from __future__ import annotations

from swarm.store.replication import Peer, Replication
from swarm.views.replication import progress, render_replication

BEN = Peer("ben", connected=True, seen_ago=0.0, to_come=0, has=1.0, delay=0.9)
EVA = Peer("eva", connected=False, seen_ago=120.0, to_come=2_000_000, has=None)


def test_a_place_that_all_see_alike_says_nothing() -> None:
    assert render_replication(None) == ""


def test_each_member_is_named_with_how_far_and_how_late_it_is() -> None:
    assert render_replication(Replication("lab", "lab", [BEN, EVA], ["the folder x is missing"], ["A-DEVICE"])) == (
        "replicated: this machine is lab, the host; 1 of 2 others are connected\n"
        "  ben: connected, has 100% of what is ours, heartbeats come 0.9 s late\n"
        "  eva: not connected for 2m, 2.0 MB of its own to come\n"
        "  trouble: the folder x is missing\n"
        "  -> start a node here, or run `swarm invite` or `swarm join --invitation` again: they set it right\n"
        "  1 devices knock that are no members; `swarm invite PATH` shows them"
    )
    assert progress(Replication("ben", "lab", [BEN, EVA], [])) == "2.0 MB to come from 1 members; not connected: eva"
