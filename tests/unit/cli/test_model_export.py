"""`swarm model export`."""

from __future__ import annotations

import os
import shutil
from functools import partial
from pathlib import Path

import pytest
from msgspec.json import encode

from swarm.policy import hub
from swarm.policy.peft_form import SavedAdapter
from tests.layout import Layout
from tests.unit.cli.conftest import Typed
from tests.unit.policy.test_merging import saved_adapter
from tests.unit.views.factories import append, make_experiment, make_start


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    layout = make_experiment(tmp_path / "here", rounds=3)
    model = layout.checkpoint(3, "alice") / "model"
    model.mkdir()
    (model / "config.json").write_text("{}")
    (model / "model.safetensors").write_bytes(b"weights")
    return layout


@pytest.fixture
def export(layout: Layout, typed: Typed) -> Typed:
    return partial(typed, "model", "export", "alice", "--path", layout.path, "--experiment", layout.experiment, "-o")


def test_a_model_comes_with_its_files_and_a_card_and_overwrites_nothing(export: Typed, tmp_path: Path) -> None:
    target = tmp_path / "out"
    assert "after 3 rounds" in export(target).out
    assert sorted(file.name for file in target.iterdir()) == ["README.md", "config.json", "model.safetensors"]
    assert (target / "model.safetensors").read_bytes() == b"weights"
    assert "What it was trained on" in (target / "README.md").read_text()
    assert "is there already" in export(target, code=2).err


def test_the_card_has_the_exam_and_nothing_of_this_machine(layout: Layout, export: Typed, tmp_path: Path) -> None:
    command = f"HF=hf_abcdefghijklmn swarm up --path {layout.path} --seed 7"
    said = {"seed": 7, "model": ["/home/ada/secret"], "system_prompt": "mail ada", "mirror": "s3://ada/x"}
    start = make_start(layout, "alice", settings=said, command=command)
    append(layout.logs / "alice" / "starts.jsonl", encode(start))
    exam = {"node_id": "alice", "model": "m", "rounds_done": 3, "task": "bf", "n": 8}
    row = exam | {"pass_at_1": 0.5, "mean_reward": 0.5, "answered": 1}
    layout.exam_file.write_bytes(encode([row]))
    export(tmp_path / "out")
    card = (tmp_path / "out" / "README.md").read_text()
    assert "| `SEED` | 7 |" in card
    assert "| `MODEL_NAME` | (of this machine) |" in card
    for private in ("hf_abc", str(layout.path), "ada", "s3"):
        assert private not in card
    assert "| bf | 8 | - | 0.500 | - | 0.500 |" in card


def test_an_exam_that_cannot_be_read_is_left_out_and_links_in_a_checkpoint_are_not_followed(
    layout: Layout, export: Typed, tmp_path: Path
) -> None:
    layout.exam_file.write_text("[{")
    export(tmp_path / "first")
    (tmp_path / "secret").write_text("secret")
    os.symlink(tmp_path / "secret", layout.checkpoint(3, "alice") / "model" / "notes.txt")
    export(tmp_path / "out", codes=(0, 1, 2))
    assert not (tmp_path / "out" / "notes.txt").exists()


@pytest.fixture
def adapted(layout: Layout, tmp_path: Path) -> Path:
    """The folder of alice's checkpoint, which is one of an adapter."""
    model = layout.checkpoint(3, "alice") / "model"
    shutil.rmtree(model)
    return saved_adapter("tiny-2-qwen2", tmp_path / "saved")[0].rename(model)


def test_an_adapter_comes_as_it_was_saved_with_a_card_that_names_its_base(
    adapted: Path, export: Typed, tmp_path: Path
) -> None:
    target = tmp_path / "out"
    export(target)
    for name in ("adapter_config.json", "adapter_model.safetensors"):
        assert (target / name).read_bytes() == (adapted / name).read_bytes()
    card = (target / "README.md").read_text()
    assert "library_name: peft" in card
    assert 'AutoModelForCausalLM.from_pretrained("tiny-2-qwen2")' in card
    assert 'embedded_path("tiny-2-qwen2")' in card


@pytest.mark.usefixtures("adapted")
def test_merged_it_is_a_whole_model_whose_card_says_so(export: Typed, tmp_path: Path) -> None:
    target = tmp_path / "out"
    assert f"wrote the model of alice after 3 rounds to {target}" in export(target, "--merged").out
    card = (target / "README.md").read_text()
    assert "library_name: transformers" in card
    assert "added to the weights of tiny-2-qwen2 as its files have them" in " ".join(card.split())
    assert "adapter_config.json" not in {file.name for file in target.iterdir()}


@pytest.mark.parametrize("base", ["mallory/any", "/models/any", "../any"])
def test_a_base_that_the_place_names_is_neither_fetched_nor_opened(
    layout: Layout, export: Typed, base: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = layout.checkpoint(3, "alice") / "model"
    (model / "config.json").unlink()
    (model / "adapter_config.json").write_bytes(SavedAdapter("LORA", base, 2, 1.0, "all-linear").encoded())
    asked: list[str] = []
    monkeypatch.setattr(hub, "look_up", lambda name, token=None: asked.append(name))
    assert "set MODEL_NAME" in export(tmp_path / "out", "--merged", codes=(1, 2)).err
    assert not asked
    assert not (tmp_path / "out").exists()


def test_a_whole_model_is_not_merged(export: Typed, tmp_path: Path) -> None:
    assert "holds a whole model already" in export(tmp_path / "out", "--merged", code=2).err
    assert not (tmp_path / "out").exists()
