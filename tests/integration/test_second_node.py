"""Two processes of one node id."""

from __future__ import annotations

import signal

from tests.integration.swarms import daemons, environment, events, eventually, json_lines, layout


def test_a_refused_second_node_writes_nothing_into_the_log_of_the_first(tmp_path):
    env = environment(tmp_path)
    with daemons() as start:
        first = start("services.coordinator", env)
        eventually(lambda: events(tmp_path, "coordinator", "workers.awaited"), "the first one's start")
        second = start("services.coordinator", env)
        assert second.wait() == 2, second.output
        assert "is taken" in second.output
        first.signal(signal.SIGTERM)
        assert first.wait() == 143
    assert {event["pid"] for event in events(tmp_path, "coordinator", "node.starting")} == {first.process.pid}
    said = [event["event"] for event in json_lines(layout(tmp_path).events_file("coordinator"))]
    assert "process.failed" not in said
    assert said[0] == "node.starting"
    assert "is taken" not in layout(tmp_path).stdout_file("coordinator").read_text()
