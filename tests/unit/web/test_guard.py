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
def test_without_the_cookie_nothing_is_told_and_another_services_of_its_name_keeps_nobody_out(cookie: str) -> None:
    guard = a_guard()
    own = enter(guard)
    assert status_of(guard, cookie=cookie) == 401
    assert status_of(guard, cookie=f"{cookie}; {'x' * 9000}=1; {own}; swarm_web=bad") == 200


def test_the_token_is_good_on_the_page_alone_and_a_look_at_the_link_does_not_spend_it() -> None:
    guard = a_guard()
    assert status_of(guard, token=guard.token) == 401
    assert status_of(guard, path="/", token="") == 401
    assert status_of(guard, method="HEAD", path="/", token=guard.token) == 401
    assert status_of(guard, cookie=enter(guard)) == 200


LOOPBACK = ["localhost", "LOCALHOST:9999", "127.0.0.1:1", "[::1]", "[::1]:8765"]
FOREIGN = ["evil.example:8765", "", "127.0.0.1.evil.example", "localhost@evil", "127.0.0.1:x", "[::2]:8765"]
ELSEWHERE = ["http://evil.example", "https://127.0.0.1:8765", "http://127.0.0.1:1", "null"]


@pytest.mark.parametrize(
    ("name", "values", "status"),
    [
        ("host", LOOPBACK, 200),
        ("host", FOREIGN, 421),
        ("origin", ELSEWHERE, 403),
        ("fetch_site", ["cross-site"], 403),
        ("method", ["POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE"], 405),
    ],
)
def test_with_the_cookie_only_a_reading_request_to_this_machines_loopback_from_its_own_page_is_answered(
    name: str, values: list[str], status: int
) -> None:
    guard = a_guard()
    cookie = enter(guard)
    found = {value: status_of(guard, **{name: value}, cookie=cookie) for value in values}
    assert found == dict.fromkeys(values, status)
    assert status_of(guard, path="/", fetch_site="cross-site", cookie=cookie) == 200, "a link may lead to the page"


def test_a_name_that_was_allowed_is_its_own() -> None:
    guard = a_guard(hosts=frozenset({"lab.example"}))
    assert guard.judge(RequestHead("GET", "/healthz", "lab.example:80")).verdict is RequestVerdict.OPEN
    assert status_of(guard, host="localhost") == 421


def test_no_more_browsers_are_let_in_than_are_remembered() -> None:
    guard = a_guard()
    first = enter(guard)
    for _ in range(MOST_SESSIONS):
        last = enter(guard)
    assert status_of(guard, cookie=first) == 401
    assert status_of(guard, cookie=last) == 200
