"""`swarm web`: what it refuses, what it prints, and the file that it writes."""

from __future__ import annotations

import builtins
import re
import socket
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from swarm.errors import ConfigError
from tests.patience import PATIENCE
from tests.unit.cli.conftest import Typed
from tests.unit.views.factories import make_experiment


@pytest.fixture
def web(typed: Typed, tmp_path: Path) -> Typed:
    make_experiment(tmp_path)
    return partial(typed, "web", "--path", tmp_path, "--experiment", "exp")


def test_the_page_is_written_into_one_file_that_is_not_overwritten(tmp_path: Path, web: Typed) -> None:
    target = tmp_path / "out.html"
    assert "asks nobody for anything" in web("--export", target).out
    written = target.read_bytes()
    assert written.startswith(b"<!doctype html>")
    assert "--force" in web("--export", target, code=2).err
    assert target.read_bytes() == written
    web("-o", target, "--force")


def test_a_port_that_is_taken_is_refused_with_another_way(web: Typed) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert "choose another --port" in web("--port", taken.getsockname()[1], code=2).err


def test_without_the_extra_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_experiment(tmp_path)
    load = builtins.__import__

    def without(name: str, *rest: Any, **named: Any) -> Any:
        if name.partition(".")[0] == "uvicorn":
            raise ImportError(name)
        return load(name, *rest, **named)

    monkeypatch.setattr(builtins, "__import__", without)
    from swarm.cli.web import web as command

    with pytest.raises(ConfigError, match=r"pip install .*starlette"):
        command(port=0)


def test_it_serves_until_it_is_interrupted_and_prints_no_token_but_in_its_link(tmp_path: Path) -> None:
    pytest.importorskip("uvicorn")
    make_experiment(tmp_path)
    words = ["web", "--port", "0", "--path", str(tmp_path), "--experiment", "exp"]
    command = [sys.executable, "-m", "swarm", *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            assert process.stdout
            link = re.search(r"(http://127\.0\.0\.1:\d+)/\?token=(\S+)", process.stdout.readline())
            assert link
            assert urlopen(f"{link[1]}/healthz", timeout=PATIENCE).read() == b"ok\n"
            assert b"Open the page" in urlopen(link[0], timeout=PATIENCE).read()
        finally:
            process.send_signal(2)
            rest = process.stdout.read() if process.stdout else ""
    assert process.wait(PATIENCE) == 130
    assert link[2] not in rest
    assert "for another one: http://127.0.0.1" in rest
