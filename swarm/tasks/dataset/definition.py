"""The parameters of one dataset task, checked without looking into its file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec

from swarm.spelling import did_you_mean
from swarm.tasks.dataset.scorers import CUSTOM, SCORERS, DatasetScorer
from swarm.tasks.definitions import Parameters, malformed, refuse_unknown


class DatasetDefinition(msgspec.Struct, frozen=True):
    """One task: which rows it asks, how, and what an answer is worth."""

    name: str
    path: str
    """A file, or a folder of files."""
    sha256: str = ""
    """SHA-256 of the file's bytes, or of the folder's files; see swarm.tasks.dataset.files."""
    question: str = "question"
    """A column's name, or a text with columns in braces."""
    answer: str = "answer"
    """A column's name."""
    answer_after: str = ""
    """The answer is what follows the last of these in its column."""
    scorer: str = "exact"
    """One of SCORERS, or `package.module:function`."""
    scorer_sha256: str = ""
    """SHA-256 of that module's source."""
    scoring: int = 1
    """Version of the scorer's way to reward, which tells runs apart."""
    held_out: Annotated[float, msgspec.Meta(ge=0, lt=1)] = 0.0
    """Share of the rows that judges and exams alone ask."""
    split: str = ""
    """Split of a folder: files whose names have this word alone."""
    config: str = ""
    """Configuration of a folder: files of the folder of this name alone."""
    options: dict[str, Any] = {}
    """Options of the scorer."""

    @property
    def kind(self) -> DatasetScorer:
        """Returns the scorer's declaration."""
        return SCORERS.get(self.scorer, CUSTOM)


KEYS = {*DatasetDefinition.__struct_fields__} - {"name", "path", "options"}
"""What a table says as it is."""


def read_definition(name: str, parameters: Parameters) -> DatasetDefinition:
    """Returns the definition that a table is. Raises ConfigError."""
    options = _options(name, str(parameters.get("scorer", "exact")))
    refuse_unknown(name, parameters, {*KEYS, *options})
    known = {key: value for key, value in parameters.items() if key in KEYS}
    chosen = {key: _checked(name, key, parameters[key], kind) for key, kind in options.items() if key in parameters}
    fields = {"name": name, "path": parameters["dataset"], "options": chosen, **known}
    try:
        definition = msgspec.convert(fields, DatasetDefinition, strict=True)
    except msgspec.ValidationError as error:
        raise malformed(name, str(error)) from None
    if (only := definition.kind.scoring) != definition.scoring:
        raise malformed(name, f"scoring of {definition.scorer} must be {only}, got {definition.scoring}")
    return definition


def _options(name: str, scorer: str) -> Mapping[str, Any]:
    """Returns names and types of the scorer's options."""
    if scorer in SCORERS:
        return SCORERS[scorer].options
    module, colon, function = scorer.partition(":")
    if not colon or not scorer.isascii() or not all(part.isidentifier() for part in (*module.split("."), function)):
        hint = did_you_mean(scorer, SCORERS)
        raise malformed(
            name, f"scorer must be one of {', '.join(SCORERS)}, or package.module:function, got {scorer!r:.80}{hint}"
        )
    return CUSTOM.options


def _checked(name: str, key: str, value: object, kind: Any) -> object:
    try:
        return msgspec.convert(value, kind, strict=True)
    except msgspec.ValidationError as error:
        raise malformed(name, f"{key}: {error}") from None
