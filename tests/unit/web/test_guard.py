"""Who may ask the page's service: decided from the head of a request alone."""

from __future__ import annotations

from itertools import count

import pytest

from swarm.web.guard import MOST_SESSIONS, Guard, RequestHead, RequestVerdict

HOST = "127.0.0.1:8765"


def a_guard(**fields: object) -> Guard:
    secrets = (f"secret-{number}" for number in count())
    return Guard("swarm_web", new_secret=lambda: next(secrets), **fields)  # type: ignore[arg-type]


def enter(guard: Guard) -> str:
    """Let a browser in; its Cookie header."""
    judged = guard.judge(RequestHead("GET", "/", HOST, token=guard.token))
    assert judged.verdict is RequestVerdict.ADMIT
    return f"other=1; swarm_web={judged.text}"


def status_of(guard: Guard, **fields: str) -> int:
    judged = guard.judge(RequestHead(**{"method": "GET", "path": "/api/place", "host": HOST} | fields))
    return 200 if judged.verdict in (RequestVerdict.PASS, RequestVerdict.OPEN) else judged.status


def test_the_token_lets_one_browser_in_and_then_another_one_does() -> None:
    guard = a_guard()
    first = guard.token
    cookie = enter(guard)
    assert status_of(guard, cookie=cookie) == 200
    assert guard.token != first
    assert status_of(guard, path="/", token=first) == 401
    assert status_of(guard, cookie=enter(guard)) == 200


@pytest.mark.parametrize("cookie", ["", "swarm_web=", "swarm_web=secret-9", "swarm_web_2=secret-2", "swarm_web", ";;="])
def test_without_the_cookie_nothing_is_told(cookie: str) -> None:
    guard = a_guard()
    enter(guard)
    assert status_of(guard, cookie=cookie) == 401


def test_a_look_at_the_link_alone_does_not_spend_it() -> None:
    guard = a_guard()
    assert status_of(guard, method="HEAD", path="/", token=guard.token) == 401
    assert status_of(guard, cookie=enter(guard)) == 200


def test_a_cookie_of_the_same_name_by_another_service_keeps_nobody_out() -> None:
    guard = a_guard()
    cookie = enter(guard)
    assert status_of(guard, cookie=f"swarm_web=bad; {cookie}") == 200
    assert status_of(guard, cookie=f"{'x' * 9000}=1; {cookie}; swarm_web=bad") == 200


def test_the_token_is_good_on_the_page_alone() -> None:
    guard = a_guard()
    assert status_of(guard, token=guard.token) == 401
    assert status_of(guard, path="/", token="") == 401


@pytest.mark.parametrize(
    "host", ["evil.example:8765", "", "127.0.0.1.evil.example", "localhost@evil", "127.0.0.1:x", "[::2]:8765"]
)
def test_a_name_that_is_not_this_services_own_is_refused_with_the_cookie_too(host: str) -> None:
    guard = a_guard()
    assert status_of(guard, host=host, cookie=enter(guard)) == 421


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:9999", "127.0.0.1:1", "[::1]", "[::1]:8765"])
def test_names_of_this_machines_loopback_are_its_own_at_any_port(host: str) -> None:
    guard = a_guard()
    assert status_of(guard, host=host, cookie=enter(guard)) == 200


def test_a_name_that_was_allowed_is_its_own() -> None:
    guard = a_guard(hosts=frozenset({"lab.example"}))
    assert guard.judge(RequestHead("GET", "/healthz", "lab.example:80")).verdict is RequestVerdict.OPEN
    assert status_of(guard, host="localhost") == 421


@pytest.mark.parametrize("origin", ["http://evil.example", "https://127.0.0.1:8765", "http://127.0.0.1:1", "null"])
def test_another_origin_is_refused(origin: str) -> None:
    guard = a_guard()
    assert status_of(guard, origin=origin, cookie=enter(guard)) == 403


def test_a_link_elsewhere_may_lead_to_the_page_and_to_nothing_else() -> None:
    guard = a_guard()
    cookie = enter(guard)
    assert status_of(guard, fetch_site="cross-site", cookie=cookie) == 403
    assert status_of(guard, path="/", fetch_site="cross-site", cookie=cookie) == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE"])
def test_it_is_read_only(method: str) -> None:
    guard = a_guard()
    assert status_of(guard, method=method, cookie=enter(guard)) == 405


def test_no_more_browsers_are_let_in_than_are_remembered() -> None:
    guard = a_guard()
    first = enter(guard)
    for _ in range(MOST_SESSIONS):
        last = enter(guard)
    assert status_of(guard, cookie=first) == 401
    assert status_of(guard, cookie=last) == 200
