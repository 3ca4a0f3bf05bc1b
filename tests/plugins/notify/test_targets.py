"""A command gets a message on its standard input and nothing through a shell; a webhook gets it by POST."""

from __future__ import annotations

import shlex
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from swarm.errors import ConfigError
from swarm.plugins.notify.entry import message
from swarm.plugins.notify.targets import UndeliveredError, target
from swarm.plugins.notify.troubles import Change

pytestmark = pytest.mark.engine
HOSTILE = "$(touch here); `touch here` \x1b[2J\u202e'\""


def command(code: str) -> str:
    return shlex.join([sys.executable, "-c", code])


def test_what_strangers_wrote_reaches_a_command_as_json_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = message("exp", "/mnt", 1.0, [Change("silent", HOSTILE, False, f"{HOSTILE} is silent")])
    target(command("import sys; open('got', 'wb').write(sys.stdin.buffer.read())"))(found)
    assert (tmp_path / "got").read_bytes() == found
    assert found.count(b"\n") == 1
    assert not (tmp_path / "here").exists()


def test_a_command_need_not_read_and_one_that_fails_or_hangs_says_why() -> None:
    target(command("pass"))(b"{}" * 10**6)
    with pytest.raises(UndeliveredError, match="exit code 3: no bell"):
        target(command("import sys; sys.stderr.write('no bell'); sys.exit(3)"))(b"{}")
    endless = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import time; time.sleep(999)'])"
    with pytest.raises(UndeliveredError, match="was not done after"):
        target(command(endless), timeout=0.5)(b"{}")


@pytest.mark.parametrize(
    "text",
    ["", "   ", "no-such-program-here", "echo 'unfinished", "ftp://host/x", "https://", "http://a b/", "http://h:0/"],
)
def test_what_is_no_target_is_refused_before_the_watch_begins(text: str) -> None:
    with pytest.raises(ConfigError, match="--notify"):
        target(text)


@contextmanager
def webhook(
    status: int, headers: dict[str, str] | None = None, *, answers: bool = True
) -> Iterator[tuple[str, list[bytes]]]:
    """A server on loopback; yields its address and the bodies that were posted."""
    got: list[bytes] = []
    over = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            got.append(self.rfile.read(int(self.headers["Content-Length"])))
            if not answers:
                over.wait(60)
                return
            self.send_response(status)
            for name, value in (headers or {}).items():
                self.send_header(name, value)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/secret-token", got
        finally:
            over.set()
            server.shutdown()
            thread.join()


def test_a_webhook_is_posted_json_and_a_redirect_is_not_followed() -> None:
    with webhook(204) as (elsewhere, got), webhook(302, {"Location": elsewhere}) as (url, _):
        with pytest.raises(UndeliveredError, match="302"):
            target(url)(b"{}")
        assert got == []
        target(elsewhere)(b'{"a": 1}')
    assert got == [b'{"a": 1}']


def test_a_webhook_that_refuses_or_does_not_answer_is_left_and_named_without_its_secret() -> None:
    with webhook(500) as (url, _), pytest.raises(UndeliveredError, match=r"127\.0\.0\.1 answered 500") as refused:
        target(url)(b"{}")
    assert "secret" not in str(refused.value)
    with webhook(204, answers=False) as (url, _), pytest.raises(UndeliveredError, match=r"within 0\.5 s"):
        target(url, timeout=0.5)(b"{}")
    with pytest.raises(UndeliveredError, match="cannot be reached"):
        target(url)(b"{}")
