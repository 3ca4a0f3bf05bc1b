"""A model's folder as files: where it is, what its headers say, and what is missing in it. No torch, nothing is run.

name ─▶ embedded or local folder ─▶ config.json, weights (model.safetensors, or shards and their index), tokenizer

sizes_problem holds the sizes that a config.json names against the header of the weights beside it, in no memory.

A model is built by its configuration before its weights are read. One that names other sizes than they have would be
built all the same, layer by layer, and be refused when the memory is gone.
"""

from __future__ import annotations

import json
import math
import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO

from swarm.errors import ModelError, NoModelError
from swarm.harmless import quoted
from swarm.policy.embedded import EMBEDDED, embedded_path
from swarm.policy.peft_form import WEIGHTS as ADAPTER_WEIGHTS
from swarm.policy.peft_form import adapter_of, is_adapter, not_merged, not_plain
from swarm.spelling import did_you_mean
from swarm.wire import keys

CONFIG, WEIGHTS, INDEX = "config.json", "model.safetensors", "model.safetensors.index.json"
TOKENIZERS = ("tokenizer*", "vocab*", "merges.txt", "spiece.model", "*.tiktoken", "tekken.json")
"""Names of files of which a tokenizer has at least one."""
PICKLES = frozenset({".bin", ".pt", ".pth", ".pkl", ".ckpt"})
"""How the names of weights end that are pickles: to read one is to run what it says."""
LARGEST_HEADER, LARGEST_CONFIG, LARGEST_INDEX = 4 << 20, 1 << 20, 16 << 20
"""Bytes: a header has some 100 for each tensor of its file, an index for each of its model; config.json a few kB."""
_MOST_SIDES = 16
_UNREADABLE = (OSError, ValueError, KeyError, TypeError, AttributeError)


def local_folder(name: str) -> Path | None:
    """Returns the folder of an embedded model, or of the user's own; None for what may be a name of the Hub."""
    if name in EMBEDDED:
        return embedded_path(name)
    path = Path(name).expanduser()
    return path if path.is_dir() else None


def begins_as_embedded(name: str) -> bool:
    """Tells whether a name begins as those of embedded models do, and as no model of the Hub without an owner does."""
    return name.startswith("tiny") and "/" not in name


def is_path(name: str) -> bool:
    """Tells whether a name is written as a path, and as no name of the Hub is."""
    path = Path(name).expanduser()
    return path.is_absolute() or name.startswith((".", "~")) or len(path.parts) > 2


def place_problem(folder: Path) -> str:
    """Returns why a folder below the checkpoints of a place, a copy or a mirror is not opened; empty for any other."""
    pairs = pairwise(folder.resolve().parts)
    if any(above == keys.CHECKPOINTS and keys.round_of(below) is not None for above, below in pairs):
        return (
            f"{folder.absolute()} lies in a shared place, where anybody may have written it: copy it out by "
            "`swarm model export NODE`, and name the copy"
        )
    return ""


def lasting_name(name: str) -> str:
    """Returns a model's name that means the same from any working directory."""
    return name if name in EMBEDDED or not (path := local_folder(name)) else str(path.resolve())


def resolve_model(name: str) -> str:
    """Returns where `name` is to be had: an embedded model's folder, a local folder, or a hub id as it is.

    Raises:
        NoModelError: the name is written as a path, and no folder is there, or begins as those of embedded models do.
    """
    if folder := local_folder(name):
        return str(folder)
    if os.path.isfile(file := Path(name).expanduser()):
        raise NoModelError(
            f"model {name!r}: {file.absolute()} is a file; name the folder of a model. Check MODEL_NAME."
        )
    if begins_as_embedded(name):
        raise NoModelError(f"model {name!r}: expected {model_names()}{did_you_mean(name, EMBEDDED)}. Check MODEL_NAME.")
    if is_path(name):
        raise NoModelError(
            f"model {name!r}: expected {model_names()}; no folder is at {file.absolute()}. Check MODEL_NAME."
        )
    return name


def model_names() -> str:
    """Says in words what a model may be."""
    return f"an embedded model ({', '.join(EMBEDDED)}), a folder with a Hugging Face causal LM, or a hub id"


def folder_problem(folder: Path) -> str:
    """Returns why a folder holds no model that can be loaded, as far as its files tell; empty if it does."""
    if problem := place_problem(folder):
        return problem
    if is_adapter(folder):
        return _adapter_problem(folder)
    try:
        config = read_json(folder / CONFIG)
    except FileNotFoundError:
        return f"{folder.absolute()} is not a model folder: it has no {CONFIG}"
    except (OSError, ValueError) as error:
        return f"expected {CONFIG} in {folder.absolute()}: {error}"
    try:
        files = safetensors_files(folder)
        cut = [problem for file in files if (problem := _cut(file))]
        if cut:
            return cut[0]
        shapes = [shape for file in files for _, shape in tensor_shapes(file)]
    except _UNREADABLE as error:
        return f"its weights in {folder.absolute()} cannot be read: {type(error).__name__}: {error}"
    if not files:
        return _no_weights(folder)
    if odd := sizes_problem(config, shapes):
        return f"its {CONFIG} in {folder.absolute()} is not of its weights: {odd}"
    if not any(found.is_file() for pattern in TOKENIZERS for found in folder.glob(pattern)):
        return f"expected the files of its tokenizer, such as tokenizer.json, in {folder.absolute()}, got none"
    return ""


def _adapter_problem(folder: Path) -> str:
    """Returns what is wrong with the folder of an adapter, or of its base; empty if nothing is."""
    try:
        base = adapter_of(folder).base_model_name_or_path
        if odd := not_plain(folder):
            return not_merged(odd)
        if problem := _cut(folder / ADAPTER_WEIGHTS):
            return problem
        found = local_folder(base)
        if found and is_adapter(found):
            return f"{folder.absolute()} holds an adapter whose base {base!r} is an adapter, too"
        return folder_problem(found) if found else ""
    except ModelError as error:
        return str(error)


def _no_weights(folder: Path) -> str:
    pickles = sorted(file.name for file in folder.iterdir() if file.suffix in PICKLES)
    expected = f"expected weights as {WEIGHTS} in {folder.absolute()}, got {', '.join(pickles[:3]) or 'none'}"
    if not pickles:
        return expected
    return (
        f"{expected}: a pickle runs code when it is read. Load it where you trust it, save it with "
        "save_pretrained(folder, safe_serialization=True)"
    )


def _cut(file: Path) -> str:
    """Returns what is missing of a file of weights; empty if nothing is."""
    if not file.is_file():
        return f"expected weights in {file.absolute()}, which {file.with_name(INDEX).name} names, got no such file"
    try:
        length, header = read_header(file)
        entries = [entry for name, entry in header.items() if name != "__metadata__"]
        if not all(_is_of_its_bytes(entry) for entry in entries):
            return f"its weights in {file.absolute()} cannot be read: a tensor has more numbers than bytes"
        spans = [entry["data_offsets"] for entry in entries]
        taken = max(sum(end - begin for begin, end in spans), max((end for _, end in spans), default=0))
        expected, got = 8 + length + taken, file.stat().st_size
    except _UNREADABLE as error:
        return f"its weights in {file.absolute()} cannot be read: {error}"
    return f"{file.absolute()} is cut: expected {expected} bytes, got {got}; fetch it again" if got < expected else ""


def _is_of_its_bytes(entry: dict[str, Any]) -> bool:
    """Tells whether a tensor is not larger than what it has of the file; types of few bits have two numbers a byte."""
    shape, (begin, end) = entry["shape"], entry["data_offsets"]
    whole = all(type(number) is int and 0 <= number < 2**63 for number in (*shape, begin, end))
    return whole and len(shape) <= _MOST_SIDES and math.prod(shape) <= 2 * (end - begin)


def safetensors_files(folder: Path) -> list[Path]:
    """Returns the files that transformers would load; other copies of the weights may lie beside them."""
    if (folder / WEIGHTS).is_file():
        return [folder / WEIGHTS]
    if (folder / INDEX).is_file():
        return [folder / file for file in sorted(set(read_json(folder / INDEX, LARGEST_INDEX)["weight_map"].values()))]
    return []


def tensor_shapes(file: Path) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Tensors named in the header of a safetensors file."""
    for name, entry in read_header(file)[1].items():
        if name != "__metadata__":
            yield name, tuple(entry["shape"])


def header_bytes(file: Path) -> int:
    """Returns how long the header of a safetensors file is. Raises OSError, ValueError."""
    with opened_regular(file) as stream:
        return _length(file, stream)


def read_header(file: Path) -> tuple[int, dict[str, Any]]:
    """Returns the header of a safetensors file, with its length. Raises OSError, ValueError."""
    with opened_regular(file) as stream:
        length = _length(file, stream)
        return length, _object(file, stream.read(length))


def _length(file: Path, stream: BinaryIO) -> int:
    length = int.from_bytes(stream.read(8), "little")
    if not 0 < length <= LARGEST_HEADER:
        raise ValueError(f"{file} is no safetensors file, or its header has more than {LARGEST_HEADER} bytes")
    return length


def read_json(file: Path, most: int = LARGEST_CONFIG) -> dict[str, Any]:
    """Returns a file of one JSON object, of so many bytes at most. Raises OSError, ValueError."""
    with opened_regular(file) as stream:
        if len(data := stream.read(most + 1)) > most:
            raise ValueError(f"{file} has more than {most} bytes")
        return _object(file, data)


@contextmanager
def opened_regular(file: Path) -> Iterator[BinaryIO]:
    """A file to read, for the block; a pipe or a device, which may never give anything, is none. Raises OSError."""
    with open(file, "rb", opener=_without_waiting) as stream:
        if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
            raise OSError(f"{file} is no file")
        yield stream


def _without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def _object(file: Path, data: bytes) -> dict[str, Any]:
    try:
        content = json.loads(data.decode("utf-8"))
    except RecursionError:
        raise ValueError(f"{file} is nested too deeply") from None
    if not isinstance(content, dict):
        raise ValueError(f"{file} holds no JSON object")
    return content


_SIDES = (
    *("vocab_size", "hidden_size", "n_embd", "d_model", "intermediate_size", "n_inner", "ffn_dim", "d_ff"),
    *("num_attention_heads", "n_head", "num_key_value_heads", "head_dim", "num_experts", "num_local_experts"),
)
"""What some matrix has as a side, or as a part of one."""
_LAYERS = ("num_hidden_layers", "n_layer", "num_layers")
"""Each of them has a matrix at least."""
_LENGTHS = ("max_position_embeddings", "n_positions", "n_ctx", "sliding_window")
"""Lengths: of some architectures a matrix has so many rows; of most they are numbers alone."""
_LONGEST = 2**31


def sizes_problem(config: Mapping[str, Any], shapes: Iterable[tuple[int, ...]]) -> str:
    """Returns which size a configuration names that these tensors do not have; empty if there is none.

    Args:
        config: of a model of text, or of several kinds, with that of its text under `text_config`.
        shapes: of all tensors of the weights.
    """
    text = config.get("text_config", config)
    if not isinstance(text, dict):
        return f"text_config: expected an object, got {quoted(text)}"
    known = [shape for shape in shapes if all(shape)]  # one without numbers may have any other side
    largest = max((side for shape in known for side in shape), default=0)
    for names, most in ((_SIDES, largest), (_LAYERS, len(known)), (_LENGTHS, _LONGEST)):
        for name in names:
            value = text.get(name)
            if value is not None and not (type(value) is int and 0 <= value <= most):
                return f"{name}: expected a whole number of at most {most}, got {quoted(value)}"
    return ""
