"""A model of the hub is looked up before anything starts: each failure has its own words, a whole copy will do.

The hub is a real server on loopback; the client is the real one.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import constants
from safetensors.torch import load_file, save_file

from swarm.errors import ModelError
from swarm.policy import hub as hub_module
from swarm.policy.embedded import embedded_path
from swarm.policy.hub import cached_folder, fetch, look_up
from swarm.policy.model import load_model
from swarm.policy.model_files import folder_problem
from tests.fake_hub import COMMIT, FakeHub, fake_hub, go_to

NAME = "owner/small"


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeHub]:
    """A hub of one model, and an empty cache."""
    folder = tmp_path / "served"
    folder.mkdir()
    for file in embedded_path("tiny-2-qwen2").iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    with fake_hub(NAME, folder) as running:
        go_to(running.endpoint, monkeypatch)
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
        yield running


def refusal(name: str = NAME, token: str | None = None) -> str:
    with pytest.raises(ModelError) as caught:
        look_up(name, token)
    assert name in str(caught.value)
    return str(caught.value)


def ignore(line: str) -> None:
    pass


def test_what_is_to_be_fetched_is_known_before_and_nothing_is_fetched_to_know_it(hub: FakeHub, tmp_path: Path) -> None:
    found = look_up(NAME)
    size = (hub.folder / "model.safetensors").stat().st_size
    assert size < found.bytes_missing < 2 * size
    assert found.commit == COMMIT
    assert not (tmp_path / "cache").exists()
    assert not [asked for asked in hub.asked if asked.startswith("GET") and "/resolve/" in asked]


def test_a_model_is_fetched_once_and_loads_without_the_hub(hub: FakeHub) -> None:
    said: list[str] = []
    folder = fetch(NAME, said.append)
    assert (folder / "model.safetensors").read_bytes() == (hub.folder / "model.safetensors").read_bytes()
    assert "fetching" in said[0]
    assert "fetched in" in said[-1]
    assert look_up(NAME).missing == ()
    assert cached_folder(NAME) == folder
    hub.mode = "down"
    said.clear()
    assert fetch(NAME, said.append) == folder
    assert said == []


@pytest.mark.parametrize(
    ("mode", "name", "token", "said"),
    [
        ("", "owner/smal", None, "knows none of this name, or hides it (404). Check MODEL_NAME for a slip"),
        ("hidden", NAME, None, "private model needs HUGGINGFACE_ACCESS_TOKEN"),
        ("gated", NAME, None, "is gated (401): accept its terms at https://huggingface.co/owner/small with an account"),
        ("gated", NAME, "hf_mine", "is gated (403): accept its terms"),
        ("wrong token", NAME, "hf_old", "refuses the token (401). Check HUGGINGFACE_ACCESS_TOKEN"),
        ("down", NAME, None, " answers 503, and this machine's cache holds no whole copy"),
    ],
)
def test_what_the_hub_refuses_is_called_by_its_name(
    hub: FakeHub, mode: str, name: str, token: str | None, said: str
) -> None:
    hub.mode = mode or hub.mode
    assert said in refusal(name, token)
    assert token is None or f"Bearer {token}" in hub.tokens


def test_no_network_is_said_once_and_a_whole_copy_will_do(hub: FakeHub, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = fetch(NAME, ignore)
    go_to("http://127.0.0.1:9", monkeypatch)
    assert look_up(NAME).missing == ()
    assert fetch(NAME, ignore) == folder
    (folder / "model.safetensors").unlink()
    assert "http://127.0.0.1:9 cannot be reached" in refusal()


def test_offline_a_whole_copy_is_opened_without_asking_anybody(hub: FakeHub, monkeypatch: pytest.MonkeyPatch) -> None:
    fetch(NAME, ignore)
    hub.asked.clear()
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert look_up(NAME).missing == ()

    def no_network(*_: Any) -> None:
        raise AssertionError("the network is asked")

    monkeypatch.setattr(socket.socket, "connect", no_network)
    assert load_model(NAME, device="cpu").module.num_parameters() == 861_312
    assert hub.asked == []


def test_a_hub_that_takes_the_question_and_never_answers_is_waited_for_once(
    hub: FakeHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = fetch(NAME, ignore)
    hub.asked.clear()
    hub.mode = "silent"
    monkeypatch.setattr(hub_module, "TIMEOUT", 0.2)
    assert fetch(NAME, ignore) == folder
    assert len(hub.asked) == 1


def in_shards(folder: Path, name: str) -> list[Path]:
    """The model of a folder in two files, named by a form of their number."""
    weights = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    parts = [folder / name.format(number) for number in (1, 2)]
    of = {key: parts[number % 2] for number, key in enumerate(weights)}
    for part in parts:
        save_file({key: weights[key] for key in weights if of[key] == part}, part, metadata={"format": "pt"})
    index = {"metadata": {}, "weight_map": {key: part.name for key, part in of.items()}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    return parts


def test_the_files_of_a_model_are_those_that_its_index_names_whatever_they_are_called(hub: FakeHub) -> None:
    weights = load_file(hub.folder / "model.safetensors")
    parts = in_shards(hub.folder, "layers-{}.safetensors")
    save_file(weights, hub.folder / "consolidated.safetensors")  # all of it once more, as Mistral's have it
    wanted = {file for file, _ in look_up(NAME).missing}
    assert {part.name for part in parts} == {file for file in wanted if file.endswith(".safetensors")}
    folder = fetch(NAME, ignore)
    assert not folder_problem(folder)
    assert cached_folder(NAME) == folder


def test_a_model_whose_index_names_a_file_that_is_not_there_is_refused_before_any_of_it_is_fetched(
    hub: FakeHub,
) -> None:
    parts = in_shards(hub.folder, "model-0000{}-of-00002.safetensors")
    parts[1].unlink()
    assert f"expected {parts[1].name} at the hub" in refusal()
    assert not [asked for asked in hub.asked if asked.endswith(".safetensors")]


def test_an_index_that_is_none_is_said_in_a_line(hub: FakeHub) -> None:
    in_shards(hub.folder, "model-0000{}-of-00002.safetensors")
    (hub.folder / "model.safetensors.index.json").write_text("[]")
    assert "its model.safetensors.index.json at the hub cannot be read" in refusal()


@pytest.mark.parametrize("gone", ["config.json", "model.safetensors"])
def test_a_repository_that_is_no_model_is_refused_with_what_it_holds(hub: FakeHub, gone: str) -> None:
    (hub.folder / gone).rename(hub.folder / "weights.gguf")
    message = refusal()
    assert "it is no whole transformers model with safe weights" in message


def test_what_can_be_no_name_of_the_hubs_is_said_without_asking_it(hub: FakeHub) -> None:
    assert "no name of the hub's can be written like this" in refusal("bad name!")
    assert hub.asked == []


def test_a_disk_without_room_is_refused_before_a_byte_is_fetched(hub: FakeHub, monkeypatch: pytest.MonkeyPatch) -> None:
    class Full:
        free = 10

    monkeypatch.setattr(hub_module.shutil, "disk_usage", lambda _: Full)
    with pytest.raises(ModelError, match=r"MB are to be fetched to .*cache, which has 0 MB free.*HF_HOME"):
        fetch(NAME, ignore)
    assert not [asked for asked in hub.asked if asked.startswith("GET") and "/resolve/" in asked]
