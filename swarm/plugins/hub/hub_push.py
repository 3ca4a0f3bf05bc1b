"""A folder of a model to the Hugging Face Hub, by its official client: one commit, whole or not at all.

    folder, USER/NAME ─push_folder─▶ repository made if it is not there ─▶ large files ─▶ one commit
                           └───────▶ PushError: the token, the name, the network: each in its words

The token is that of HF_TOKEN, or of the file that `hf auth login` writes, or else HUGGINGFACE_ACCESS_TOKEN; it goes
into requests and nowhere else. No torch.
"""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from pathlib import Path

from swarm.errors import PushError
from swarm.harmless import printable

TIMEOUT = 120.0
"""Seconds that the hub has to take or send any part of an answer."""
STALE = ("*.safetensors", "*.safetensors.index.json", "adapter_config.json")
"""Files of an earlier model that would be loaded in the place of this one's; whatever else is there stays."""
REFUSED = (401, 403)
LONGEST_MESSAGE = 300
_REPO = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}", re.ASCII)
_TOKENS = re.compile(r"\bhf_\w+")


def repo_problem(repo: str) -> str:
    """Why a text names no repository; empty if it does."""
    if _REPO.fullmatch(repo) and ".." not in repo and "--" not in repo and not repo.endswith((".", "-", ".git")):
        return ""
    return f"expected a repository as USER/NAME, letters, digits, '_', '-' and '.', got {printable(repo)!r}"


def push_folder(folder: Path, repo: str, message: str, *, hub_token: str | None = None, public: bool = False) -> str:
    """Make the files of a folder the newest commit of a repository, which is made where it is not there.

    Args:
        repo: as USER/NAME.
        message: of the commit.
        hub_token: where neither HF_TOKEN nor the file of the client's login has one.
        public: of a repository that is made; one that is there stays what it is.

    Returns:
        Where the commit can be looked at.

    Raises:
        PushError: the hub refuses it or cannot be reached; says what to do. Nothing was changed, or all of it.
    """
    from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfApi, get_session, get_token
    from huggingface_hub.utils.tqdm import disable_progress_bars

    token = get_token() or hub_token
    if not token:
        raise PushError(f"pushing to {repo} needs a token that may write: {_HOW}", lasting=True)
    disable_progress_bars()
    get_session().timeout = TIMEOUT
    api = HfApi(token=token)
    files = sorted(file for file in folder.iterdir() if file.is_file())
    try:
        api.create_repo(repo, private=not public, exist_ok=True)
        stale = [name for name in api.list_repo_files(repo) if _is_stale(name, {file.name for file in files})]
        commit = api.create_commit(
            repo,
            [
                *(CommitOperationDelete(path_in_repo=name) for name in stale),
                *(CommitOperationAdd(path_in_repo=file.name, path_or_fileobj=file) for file in files),
            ],
            commit_message=message,
        )
    except Exception as error:  # noqa: BLE001 - the client's own, and those of whichever HTTP library it uses
        raise _in_words(repo, error, token) from None
    return str(commit.commit_url)


_HOW = (
    "make one at https://huggingface.co/settings/tokens, and `hf auth login`, or HF_TOKEN in the environment, names it"
)


def _is_stale(name: str, new: set[str]) -> bool:
    return name not in new and any(fnmatchcase(name, pattern) for pattern in STALE)


def _in_words(repo: str, error: Exception, token: str) -> PushError:
    from huggingface_hub import constants
    from huggingface_hub.errors import HfHubHTTPError, OfflineModeIsEnabled

    cause = _of_upload(error)
    status = cause.response.status_code if isinstance(cause, HfHubHTTPError) and cause.response is not None else 0
    if isinstance(cause, OfflineModeIsEnabled):
        return PushError(f"pushing to {repo}: the hub is not asked, for HF_HUB_OFFLINE is set: unset it", lasting=True)
    if status in REFUSED:
        return PushError(
            f"pushing to {repo}: the hub refuses the token ({status}), or its account may not write there: {_HOW}",
            lasting=True,
        )
    said = _TOKENS.sub("<token>", _line(cause).replace(token, "<token>"))
    if status in (400, 404, 413, 422):
        return PushError(f"pushing to {repo}: the hub takes it not ({status}): {said}", lasting=True)
    if status:
        return PushError(f"pushing to {repo}: the hub at {constants.ENDPOINT} answers {status}: {said}")
    return PushError(
        f"pushing to {repo}: the hub at {constants.ENDPOINT} cannot be reached, or broke off ({type(cause).__name__}: "
        f"{said}): check the network"
    )


def _of_upload(error: BaseException) -> BaseException:
    """What the client wraps where the upload of one file fails."""
    while isinstance(error, RuntimeError) and error.__cause__ is not None:
        error = error.__cause__
    return error


def _line(error: BaseException) -> str:
    found = next((line for line in str(error).splitlines() if line.strip()), "no message")
    return printable(found)[:LONGEST_MESSAGE]
