"""Names of models that a shared place has."""

from __future__ import annotations

from pathlib import Path

import pytest

from swarm.errors import ModelError
from swarm.policy import hub
from swarm.policy.hub import own_model
from swarm.policy.model import load_model
from swarm.policy.peft_form import SavedAdapter


def test_a_name_means_one_of_the_users_models_or_an_embedded_one() -> None:
    assert own_model("tiny-2-qwen2", ["tiny-2-gpt2"]) == "tiny-2-qwen2"
    assert own_model("owner/Some-0.5B", ["owner/Some-0.5B"]) == "owner/Some-0.5B"
    assert own_model("Some-0.5B", ["tiny-2-gpt2", "/models/Some-0.5B"]) == "/models/Some-0.5B"


@pytest.mark.parametrize("name", ["mallory/any", "/etc", "..", "mallory/tiny-2-gpt2", "\x1b[2J", "a\x00b", ""])
def test_what_a_place_names_beside_them_is_refused_with_what_to_type(name: str, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="MODEL_NAME") as refused:
        own_model(name, ["tiny-2-gpt2"])
    assert "\x1b" not in str(refused.value)


def test_a_strangers_adapter_has_no_repository_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "experiments" / "exp" / "checkpoints" / "round_3" / "mallory" / "model"
    folder.mkdir(parents=True)
    (folder / "adapter_config.json").write_bytes(SavedAdapter("LORA", "mallory/any", 2, 1.0, "all-linear").encoded())
    (folder / "adapter_model.safetensors").write_bytes(b"\2\0\0\0\0\0\0\0{}")
    asked: list[str] = []
    monkeypatch.setattr(hub, "look_up", lambda name, token=None: asked.append(name))
    with pytest.raises(ModelError, match="model export"):
        load_model(str(folder), hub_token="secret")
    assert not asked
