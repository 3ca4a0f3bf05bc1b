"""`swarm up --push`, real nodes and a hub on loopback: what arrives, what a failing hub costs, where the token is."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.integration.swarms import environment, layout, run_swarm
from tests.plugins.hub.push_hub import TOKEN, PushHub, push_hub
from tests.plugins.hub.test_model_push import logits

pytestmark = pytest.mark.engine


def processes_that_say(text: bytes) -> list[str]:
    """Command lines of this machine with a text in them."""
    said = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = file.read_bytes()
        except OSError:
            continue
        said += [line.replace(b"\0", b" ").decode("utf-8", "replace")] if text in line else []
    return said


def files_that_hold(text: bytes, folder: Path) -> list[Path]:
    return [file for file in folder.rglob("*") if file.is_file() and text in file.read_bytes()]


def pushing(hub: PushHub, tmp_path: Path) -> dict[str, str]:
    home = tmp_path / "home"
    home.mkdir()
    offline = {"HF_HUB_OFFLINE": "", "HF_HUB_DISABLE_XET": "1", "HF_HUB_DISABLE_TELEMETRY": "1"}
    where = {"HF_ENDPOINT": hub.endpoint, "HF_HOME": home, "XDG_RUNTIME_DIR": home, "TMPDIR": home}
    return environment(tmp_path / "place", HF_TOKEN=TOKEN, CHECKPOINT_INTERVAL=2, **offline, **where)


def test_every_workers_last_model_arrives_beside_the_run_and_the_token_is_nowhere(tmp_path: Path) -> None:
    with push_hub() as hub:
        seen: list[str] = []

        def look(asked: str) -> int:
            seen.extend(processes_that_say(TOKEN.encode()))
            return 500 if asked.startswith("POST /api/repos/create") and len(hub.asked) < 3 else 0

        hub.fail = look
        env = pushing(hub, tmp_path)
        done = run_swarm(env, "up", "--nodes", "2", "--push", "lab/tiny", "--push-every", "2")
        got = {node: hub.save(f"lab/tiny-{node}", tmp_path / node) for node in ("worker-0", "worker-1")}
    output = done.stdout + done.stderr
    assert done.returncode == 0, output
    for node, folder in got.items():
        assert f"pushed the model of {node} after 4 rounds" in output
        saved = layout(tmp_path / "place").checkpoint(4, node) / "model"
        assert torch.equal(logits(folder), logits(saved))
        assert "| `MAX_ROUNDS` | 4 |" in (folder / "README.md").read_text()
    assert "answers 500" in output
    assert seen == []
    assert TOKEN not in output
    assert files_that_hold(TOKEN.encode(), tmp_path) == []
