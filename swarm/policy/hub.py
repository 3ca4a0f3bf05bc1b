"""A model of the Hugging Face Hub: is it there, may it be had, what of it is on this machine, and the rest fetched.

    name ─look_up─▶ HubModel: commit, files, those that the cache lacks ─fetch─▶ its folder in the cache
              └───▶ ModelError: no such name, gated, no model, no network and no whole copy here: each in its words

No torch. Who only looks asks two small questions of the hub, and never for weights; of a model in several files the
index is fetched, which says what they are called.

own_model says which of the user's own models a shared place means by a name. Nothing that a stranger names is fetched.

a name in an adapter, a checkpoint or a study's record ─▶ one that the user gave, an embedded one, or one of the hub
                                                         that is on this machine already ─▶ else ModelError
"""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from swarm.errors import ModelError
from swarm.harmless import printable, quoted
from swarm.policy.embedded import EMBEDDED
from swarm.policy.model_files import (
    CONFIG,
    INDEX,
    LARGEST_INDEX,
    WEIGHTS,
    begins_as_embedded,
    folder_problem,
    is_path,
    read_json,
)

TIMEOUT = 10.0
"""Seconds that the hub has for an answer."""
_SMALL = re.compile(r"[^/]+\.(json|txt|model|jinja|tiktoken)|additional_chat_templates/[^/]+\.jinja")
_MB = 1e6


class HubModel(NamedTuple):
    """One model, as the hub has it, or as this machine's cache does where the hub does not answer."""

    commit: str
    missing: tuple[tuple[str, int], ...] = ()
    """Files, with their bytes, that this machine's cache has not."""

    @property
    def bytes_missing(self) -> int:
        """Returns how many bytes are to be fetched."""
        return sum(size for _, size in self.missing)


def is_hub_id(name: str) -> bool:
    """Tells whether a name is none of an embedded model or a local folder, nor written as a path."""
    return not (is_path(name) or begins_as_embedded(name) or os.path.exists(Path(name).expanduser()))


def cached_folder(name: str) -> Path | None:
    """Returns the folder that an earlier download of a hub id left on this machine, if it is whole."""
    if not is_hub_id(name):
        return None
    from huggingface_hub import try_to_load_from_cache  # a hundred milliseconds: only who names a hub id pays

    try:
        config = try_to_load_from_cache(name, CONFIG)
    except ValueError:  # no hub id could be written like this
        return None
    folder = Path(config).parent if isinstance(config, str) else None
    return folder if folder and not folder_problem(folder) else None


def look_up(name: str, token: str | None = None) -> HubModel:
    """Looks up which files the hub has of a model, and which of them this machine already has.

    Raises:
        ModelError: it cannot be had; says why, and what to do.
    """
    from huggingface_hub import HfApi, get_hf_file_metadata, hf_hub_url, try_to_load_from_cache

    try:
        info = HfApi().model_info(name, files_metadata=True, token=token, timeout=TIMEOUT)
        commit = str(info.sha)
        sizes = {sibling.rfilename: sibling.size or 0 for sibling in info.siblings or ()}
        if CONFIG in sizes:  # whose names may be seen, may still be gated
            get_hf_file_metadata(hf_hub_url(name, CONFIG, revision=commit), token=token, timeout=TIMEOUT)
        weights = [WEIGHTS] if WEIGHTS in sizes or INDEX not in sizes else _shards(name, sizes[INDEX], commit, token)
    except ModelError:
        raise
    except Exception as error:  # noqa: BLE001 - the client's own, and those of whichever HTTP library it uses
        return _without_hub(name, token, error)
    wanted = _wanted(name, sizes, weights)
    there = {file for file in wanted if isinstance(try_to_load_from_cache(name, file, revision=commit), str)}
    return HubModel(commit, tuple((file, sizes[file]) for file in wanted if file not in there))


def _shards(name: str, size: int, commit: str, token: str | None) -> list[str]:
    """Returns the names of a model's weight files, out of its index. Raises what the hub's client raises."""
    from huggingface_hub import hf_hub_download

    if size > LARGEST_INDEX:
        raise ModelError(f"model {name!r}: its {INDEX} at the hub has {size} bytes, more than {LARGEST_INDEX}")
    index = hf_hub_download(name, INDEX, revision=commit, token=token, etag_timeout=TIMEOUT)
    try:
        return sorted({str(file) for file in read_json(Path(index), LARGEST_INDEX)["weight_map"].values()}) or [WEIGHTS]
    except (ValueError, KeyError, AttributeError) as error:
        raise ModelError(f"model {name!r}: its {INDEX} at the hub cannot be read: {error}") from error


def _wanted(name: str, sizes: dict[str, int], weights: list[str]) -> list[str]:
    """Returns the files that a model is loaded from. Raises ModelError: it has none."""
    small = [file for file in sizes if _SMALL.fullmatch(file)]
    missing = [file for file in (CONFIG, *weights) if file not in sizes]
    if missing:
        got = ", ".join(sorted(sizes)[:6]) or "no files"
        raise ModelError(
            f"model {name!r}: expected {printable(missing[0])} at the hub, got {got}: it is no whole transformers "
            "model with safe weights (GGUF files and adapters are none). Name the model that it was made from, or "
            "another copy"
        )
    return small + [file for file in weights if file not in small]


def _without_hub(name: str, token: str | None, error: Exception) -> HubModel:
    """Returns the copy of this machine's cache, where it is the hub that fails, and not the name or the right to it."""
    from huggingface_hub.errors import GatedRepoError, HfHubHTTPError, HFValidationError, RepositoryNotFoundError

    status = error.response.status_code if isinstance(error, HfHubHTTPError) and error.response is not None else 0
    mine = "the account of HUGGINGFACE_ACCESS_TOKEN" if token else "an account, and set HUGGINGFACE_ACCESS_TOKEN to its"
    if isinstance(error, HFValidationError):
        raise ModelError(f"model {name!r}: no name of the hub's can be written like this: {_line(error)}") from None
    if isinstance(error, GatedRepoError):
        raise ModelError(
            f"model {name!r} is gated ({status}): accept its terms at https://huggingface.co/{name} with {mine}"
            f"{'' if token else ' token'}"
        ) from None
    if isinstance(error, RepositoryNotFoundError) or status == 404:
        raise ModelError(
            f"model {name!r}: the hub knows none of this name, or hides it ({status}). Check MODEL_NAME for a slip; "
            f"a private model needs HUGGINGFACE_ACCESS_TOKEN{' of another account' if token else ''}; a folder of your "
            f"own is written ./{name}"
        ) from None
    if status in (401, 403):
        raise ModelError(
            f"model {name!r}: the hub refuses the token ({status}). Check HUGGINGFACE_ACCESS_TOKEN"
        ) from None
    if folder := cached_folder(name):
        return HubModel(folder.name)
    why = _unreachable(error, status)
    raise ModelError(
        f"model {name!r}: the hub {why}, and this machine's cache holds no whole copy. Check the network, fetch it "
        "where there is one, or name a folder or an embedded model"
    ) from None


def _unreachable(error: Exception, status: int) -> str:
    from huggingface_hub import constants
    from huggingface_hub.errors import OfflineModeIsEnabled

    if isinstance(error, OfflineModeIsEnabled):
        return "is not asked, for HF_HUB_OFFLINE is set"
    if status:
        return f"at {constants.ENDPOINT} answers {status}"
    return f"at {constants.ENDPOINT} cannot be reached ({type(error).__name__}: {_line(error)})"


def _line(error: Exception) -> str:
    return next((line for line in str(error).splitlines() if line.strip()), "no message")[:200]


def fetch(name: str, report: Callable[[str], None], token: str | None = None) -> Path:
    """Returns the folder of a model of the hub, fetched as far as this machine's cache lacks it.

    Args:
        report: told when the download begins and ends; the hub's client shows its progress at a terminal.

    Raises:
        ModelError: it cannot be had, or there is no room for it.
    """
    found = look_up(name, token)
    if not found.missing:
        from huggingface_hub import try_to_load_from_cache

        return Path(str(try_to_load_from_cache(name, CONFIG, revision=found.commit))).parent
    _refuse_full_disk(name, found)
    return _download(name, found, report, token)


def _refuse_full_disk(name: str, found: HubModel) -> None:
    from huggingface_hub import constants

    cache = Path(constants.HF_HUB_CACHE)
    place = next(folder for folder in (cache, *cache.parents) if folder.exists())
    if (free := shutil.disk_usage(place).free) < found.bytes_missing:
        raise ModelError(
            f"model {name!r}: {found.bytes_missing / _MB:.0f} MB are to be fetched to {cache}, which has "
            f"{free / _MB:.0f} MB free: free space there, or set HF_HOME to another folder"
        )


def _download(name: str, found: HubModel, report: Callable[[str], None], token: str | None) -> Path:
    from huggingface_hub import snapshot_download

    began = time.monotonic()
    report(f"{name}: fetching {found.bytes_missing / _MB:.1f} MB in {len(found.missing)} files from the hub")
    files = [file for file, _ in found.missing]
    try:
        folder = snapshot_download(name, allow_patterns=files, token=token)
    except Exception as error:
        raise ModelError(
            f"model {name!r}: its download broke off: {type(error).__name__}: {_line(error)}. The same command goes on "
            "with it"
        ) from error
    report(f"{name}: fetched in {time.monotonic() - began:.1f} s")
    return Path(folder)


def own_model(name: str, models: Sequence[str] = ()) -> str:
    """Returns the model that is meant by a name in a shared place; asks nobody.

    Args:
        models: what the user named; another folder or owner of the same last name will do.

    Raises:
        ModelError: it is none of the user's; says what to type.
    """
    if name in models or name in EMBEDDED:
        return name
    named = [model for model in models if model not in EMBEDDED and Path(model).name == Path(name).name]
    if named:
        return named[0]
    if folder := cached_folder(name):
        return str(folder)
    raise ModelError(
        f"the place names the model {quoted(name)}, and swarm opens no model that a place names: if you trust it, "
        "set MODEL_NAME to its whole name or folder"
    )
