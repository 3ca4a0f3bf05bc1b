"""`swarm model export`."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from msgspec.json import encode

from swarm.cli.main import run
from tests.layout import Layout
from tests.unit.views.factories import append, make_experiment, make_row


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    layout = make_experiment(tmp_path / "here", rounds=3)
    model = layout.checkpoint(3, "alice") / "model"
    model.mkdir()
    (model / "config.json").write_text("{}")
    (model / "model.safetensors").write_bytes(b"weights")
    return layout


def export(layout: Layout, *words: str) -> int:
    return run(["model", "export", *words, "--path", str(layout.path), "--experiment", layout.experiment])


def test_a_model_comes_with_its_files_and_a_card_and_overwrites_nothing(
    layout: Layout, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "out"
    assert export(layout, "alice", "-o", str(target)) == 0
    assert "after 3 rounds" in capsys.readouterr().out
    assert sorted(file.name for file in target.iterdir()) == ["README.md", "config.json", "model.safetensors"]
    assert (target / "model.safetensors").read_bytes() == b"weights"
    assert "What it was trained on" in (target / "README.md").read_text()
    assert export(layout, "alice", "-o", str(target)) == 2
    assert "is there already" in capsys.readouterr().err


def test_the_card_counts_the_groups_of_every_stage(tmp_path: Path) -> None:
    layout = make_experiment(tmp_path / "here", rounds=0)
    for stage in (0, 1):
        append(layout.metrics_file("alice"), encode(make_row(layout, "alice", 0, stage=stage, local_groups=4)))
    model = layout.checkpoint(1, "alice") / "model"
    model.mkdir(parents=True)
    (model / "config.json").write_text("{}")
    assert export(layout, "alice", "-o", str(tmp_path / "out")) == 0
    assert "In 1 rounds: 8 groups of its own" in (tmp_path / "out" / "README.md").read_text()


@pytest.mark.parametrize(
    ("words", "said"),
    [(("bob",), "its checkpoints: none"), (("alice", "--rounds", "2"), "its checkpoints: after 3 rounds")],
)
def test_what_is_not_there_is_said(
    layout: Layout, tmp_path: Path, words: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert export(layout, *words, "-o", str(tmp_path / "out")) == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_links_in_a_checkpoint_are_not_followed(layout: Layout, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("secret")
    os.symlink(secret, layout.checkpoint(3, "alice") / "model" / "notes.txt")
    export(layout, "alice", "-o", str(tmp_path / "out"))
    assert not (tmp_path / "out" / "notes.txt").exists()


def test_a_node_without_a_model_is_said_to_have_none(
    layout: Layout, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    layout.checkpoint(3, "bob").mkdir(parents=True)
    (layout.checkpoint(3, "bob") / "node.json").write_text("{}")
    assert export(layout, "bob", "-o", str(tmp_path / "out")) == 2
    assert "holds no model" in capsys.readouterr().err
