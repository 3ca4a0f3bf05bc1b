"""A place of two nodes with published rounds, and a service that shows it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from starlette.testclient import TestClient

from swarm.store.place import open_place
from swarm.web.guard import Guard
from swarm.web.look import WebLook
from swarm.web.place_list import place_document
from swarm.web.service import AllWatched, Service
from tests.layout import Layout
from tests.unit.views.factories import START, append_events, make_event, make_experiment

BASE = "http://127.0.0.1"


def make_shown(path: Path, rounds: int = 3) -> Layout:
    """An experiment `exp` of alice and bob."""
    layout = make_experiment(path, rounds=rounds)
    append_events(layout, "alice", make_event("round.completed", START + 3, round=0))
    append_events(layout, "bob", make_event("peer.refused", START + 4, "warning", reason="false_claim"))
    return layout


def a_look(path: Path, experiment: str = "exp") -> WebLook:
    return WebLook(open_place(path).open(experiment), liveness_timeout=15.0)


def a_service(path: Path, interval: float = 0.01, admitted: Callable[[], None] = lambda: None) -> tuple[Service, Guard]:
    guard = Guard("swarm_web")
    place = open_place(path)

    def what_there_is() -> dict[str, Any]:
        return place_document(place, path)

    looks = AllWatched(lambda name: a_look(path, name), interval)
    return Service("exp", looks, what_there_is, guard, interval=interval, admitted=admitted), guard


def a_browser(path: Path) -> TestClient:
    """One that was let in."""
    service, guard = a_service(path)
    client = TestClient(service.app, base_url=BASE)
    entered = client.get(f"/?token={guard.token}")
    assert entered.status_code == 200
    return client
