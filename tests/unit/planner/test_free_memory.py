"""What a process holds of the machine's memory."""

from __future__ import annotations

from pathlib import Path

from swarm.planner.free_memory import host_memory, process_memory


def test_a_process_knows_what_it_holds_and_held_at_most() -> None:
    use = process_memory()
    assert use is not None
    assert 0 < use.allocated <= use.peak < use.total == host_memory()[1]
    assert 0 < use.free < use.total
    assert use.reserved is None


def test_where_the_system_does_not_tell_nothing_is_said(tmp_path: Path) -> None:
    assert process_memory(tmp_path) is None
