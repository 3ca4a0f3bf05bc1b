"""`swarm model export`."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
import torch
from msgspec.json import encode
from transformers import AutoModelForCausalLM

from swarm.cli.main import run
from swarm.policy import hub
from swarm.policy.embedded import embedded_path
from swarm.policy.peft_form import SavedAdapter
from tests.layout import Layout
from tests.unit.policy.test_lora import close
from tests.unit.policy.test_merging import IDS, saved_adapter
from tests.unit.views.factories import append, make_experiment, make_start


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


def test_the_card_has_the_exam_and_nothing_of_this_machine(layout: Layout, tmp_path: Path) -> None:
    command = f"HF=hf_abcdefghijklmn swarm up --path {layout.path} --seed 7"
    said = {"seed": 7, "model": ["/home/ada/secret"], "system_prompt": "mail ada", "mirror": "s3://ada/x"}
    start = make_start(layout, "alice", settings=said, command=command)
    append(layout.logs / "alice" / "starts.jsonl", encode(start))
    exam = {"node_id": "alice", "model": "m", "rounds_done": 3, "task": "bf", "n": 8}
    row = exam | {"pass_at_1": 0.5, "mean_reward": 0.5, "answered": 1}
    layout.exam_file.write_bytes(encode([row]))
    assert export(layout, "alice", "-o", str(tmp_path / "out")) == 0
    card = (tmp_path / "out" / "README.md").read_text()
    assert "| `SEED` | 7 |" in card
    assert "| `MODEL_NAME` | (of this machine) |" in card
    for private in ("hf_abc", str(layout.path), "ada", "s3"):
        assert private not in card
    assert "| bf | 8 | - | 0.500 | - | 0.500 |" in card


def test_an_exam_that_cannot_be_read_is_left_out(layout: Layout, tmp_path: Path) -> None:
    layout.exam_file.write_text("[{")
    assert export(layout, "alice", "-o", str(tmp_path / "out")) == 0


def test_links_in_a_checkpoint_are_not_followed(layout: Layout, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("secret")
    os.symlink(secret, layout.checkpoint(3, "alice") / "model" / "notes.txt")
    export(layout, "alice", "-o", str(tmp_path / "out"))
    assert not (tmp_path / "out" / "notes.txt").exists()


@pytest.fixture
def adapted(layout: Layout, tmp_path: Path) -> Layout:
    """Alice's checkpoint is one of an adapter."""
    model = layout.checkpoint(3, "alice") / "model"
    shutil.rmtree(model)
    saved_adapter("tiny-2-qwen2", tmp_path / "saved")[0].rename(model)
    return layout


@pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing:FutureWarning")  # which PEFT asks for
def test_an_adapter_comes_as_peft_loads_it_with_a_card_that_names_its_base(adapted: Layout, tmp_path: Path) -> None:
    from peft import PeftModel  # here: its import takes four seconds

    target = tmp_path / "out"
    assert export(adapted, "alice", "-o", str(target)) == 0
    base = AutoModelForCausalLM.from_pretrained(str(embedded_path("tiny-2-qwen2")))
    with torch.no_grad():
        theirs = PeftModel.from_pretrained(base, str(target))(IDS).logits
    assert close(theirs, saved_adapter("tiny-2-qwen2", tmp_path / "again")[1])
    card = (target / "README.md").read_text()
    assert "library_name: peft" in card
    assert 'AutoModelForCausalLM.from_pretrained("tiny-2-qwen2")' in card
    assert 'embedded_path("tiny-2-qwen2")' in card


def test_merged_it_is_a_whole_model_whose_card_says_so(
    adapted: Layout, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "out"
    assert export(adapted, "alice", "--merged", "-o", str(target)) == 0
    assert f"wrote the model of alice after 3 rounds to {target}" in capsys.readouterr().out
    card = (target / "README.md").read_text()
    assert "library_name: transformers" in card
    assert "added to the weights of tiny-2-qwen2 as its files have them" in " ".join(card.split())
    assert "adapter_config.json" not in {file.name for file in target.iterdir()}


@pytest.mark.parametrize("base", ["mallory/any", "/models/any", "../any"])
def test_a_base_that_the_place_names_is_neither_fetched_nor_opened(
    layout: Layout, base: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = layout.checkpoint(3, "alice") / "model"
    (model / "config.json").unlink()
    (model / "adapter_config.json").write_bytes(SavedAdapter("LORA", base, 2, 1.0, "all-linear").encoded())
    asked: list[str] = []
    monkeypatch.setattr(hub, "look_up", lambda name, token=None: asked.append(name))
    assert export(layout, "alice", "--merged", "-o", str(tmp_path / "out")) != 0
    assert "set MODEL_NAME" in capsys.readouterr().err
    assert not asked
    assert not (tmp_path / "out").exists()


def test_a_whole_model_is_not_merged(layout: Layout, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert export(layout, "alice", "--merged", "-o", str(tmp_path / "out")) == 2
    assert "holds a whole model already" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
