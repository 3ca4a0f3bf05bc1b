"""Models pushed to a hub on loopback by the official client."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import huggingface_hub
import pytest
from huggingface_hub import constants

from swarm.errors import PushError
from swarm.plugins.hub.hub_push import push_folder, repo_problem
from tests.plugins.hub.push_hub import CUT, LARGE, TOKEN, PushHub, push_hub

REPO = "lab/anna"
pytestmark = pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning")  # the client's own


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[PushHub]:
    with push_hub() as running:
        monkeypatch.setattr(constants, "ENDPOINT", running.endpoint)
        monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "no-token"))
        monkeypatch.setenv("HF_TOKEN", TOKEN)
        huggingface_hub.close_session()
        yield running
        huggingface_hub.close_session()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "made"
    made.mkdir()
    (made / "README.md").write_text("---\ntags: [swarm]\n---\n")
    (made / "model.safetensors").write_bytes(b"w" * LARGE)
    return made


@pytest.mark.parametrize("public", [False, True])
def test_a_folder_arrives_as_one_commit_in_a_repository_that_nobody_else_sees_unless_asked(
    hub: PushHub, folder: Path, public: bool
) -> None:
    where = push_folder(folder, REPO, "after 3 rounds", public=public)
    assert where == f"{hub.endpoint}/{REPO}/commit/{1:040x}"
    assert hub.repos[REPO] == {file.name: file.read_bytes() for file in folder.iterdir()}
    assert (hub.commits, hub.private) == ([(REPO, "after 3 rounds")], {REPO: not public})
    assert any(asked.startswith("PUT /lfs/") for asked in hub.asked)


def test_weights_of_an_earlier_form_go_and_what_people_wrote_stays(hub: PushHub, folder: Path) -> None:
    earlier = {"adapter_model.safetensors": b"a", "adapter_config.json": b"{}", "LICENSE": b"mine"}
    hub.repos[REPO] = dict(earlier)
    push_folder(folder, REPO, "m")
    assert sorted(hub.repos[REPO]) == ["LICENSE", "README.md", "model.safetensors"]


def test_what_is_there_already_is_neither_sent_nor_committed_again(hub: PushHub, folder: Path) -> None:
    push_folder(folder, REPO, "m")
    before = len(hub.asked)
    (folder / "README.md").write_text("---\ntags: [other]\n---\n")
    push_folder(folder, REPO, "again")
    assert not any(asked.startswith("PUT") for asked in hub.asked[before:])
    assert len(hub.commits) == 2


@pytest.mark.parametrize(
    ("part", "status", "said"),
    [
        ("/api/repos/create", CUT, "cannot be reached, or broke off"),
        ("/api/repos/create", 501, "answers 501"),
        ("/commit/", CUT, "cannot be reached, or broke off"),
        ("/commit/", 501, "answers 501"),
        ("/lfs/", 403, "refuses the token"),
    ],
)
def test_a_hub_that_fails_is_said_and_nothing_is_changed(
    hub: PushHub, folder: Path, part: str, status: int, said: str
) -> None:
    hub.repos[REPO] = {"LICENSE": b"mine"}
    hub.fail = lambda asked: status if part in asked else 0
    with pytest.raises(PushError, match=said) as failed:
        push_folder(folder, REPO, "m")
    assert failed.value.lasting is (status == 403)
    assert hub.repos[REPO] == {"LICENSE": b"mine"}
    assert hub.commits == []


def test_a_wrong_token_is_refused_with_what_to_do_and_is_not_repeated(
    hub: PushHub, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_wrongwrongwrong")
    with pytest.raises(PushError, match=r"refuses the token \(401\).*hf auth login") as failed:
        push_folder(folder, REPO, "m")
    assert failed.value.lasting
    assert "wrongwrong" not in str(failed.value)


def test_a_message_of_the_hubs_that_repeats_the_token_does_not_reach_the_terminal(
    hub: PushHub, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def create_repo(*_: object, **__: object) -> None:
        raise OSError(f"bad header Bearer {TOKEN}")

    monkeypatch.setattr(huggingface_hub.HfApi, "create_repo", create_repo)
    with pytest.raises(PushError, match="Bearer <token>") as failed:
        push_folder(folder, REPO, "m")
    assert TOKEN not in str(failed.value)


def test_without_a_token_nothing_is_asked_and_that_for_gated_models_serves_where_there_is_no_other(
    hub: PushHub, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HF_TOKEN")
    with pytest.raises(PushError, match="needs a token that may write") as failed:
        push_folder(folder, REPO, "m")
    assert failed.value.lasting
    assert hub.asked == []
    push_folder(folder, REPO, "m", hub_token=TOKEN)
    assert len(hub.commits) == 1


@pytest.mark.parametrize(
    "repo", ["anna", "a/b/c", "../x", "a/..", "a/b.git", "a b/c", "a/b\n", "https://x/y", "", "/a"]
)
def test_what_is_no_repository_is_said(repo: str) -> None:
    assert "expected a repository as USER/NAME" in repo_problem(repo)
