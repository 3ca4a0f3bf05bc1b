"""Says how the stages after a round's first one ask: the setting `revise`, a table.

[revise]
templates = ["{answers} ... {question}"]     of stage 1, 2, ...; the last one serves all that follow
answers = 4                                  shown in one prompt
characters = 240                             of each, its end
peers = 3                                    whose answers are shown beside the own
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from swarm.errors import ConfigError

TEMPLATE = """These answers were given to the question below before; each of them may be wrong.

{answers}

Check them, then answer it yourself:

{question}"""
FOR_EMBEDDED = "{answers}\n\n{question}"
"""Templates of the embedded models' profiles: they answer questions that they know, and find them behind no words that
they do not."""
QUESTION, ANSWERS = "{question}", "{answers}"
EMBEDDED_PROFILES = ("tiny", "tiny-2", "tiny-3")
MOST_PEERS_SHOWN = 15


class Revising(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Holds the table's settings; all of them decide prompts, so they are the same on all nodes of a run."""

    templates: Annotated[tuple[Annotated[str, Meta(max_length=8000)], ...], Meta(min_length=1, max_length=16)] = (
        TEMPLATE,
    )
    """Templates of stage 1, 2, ...; the last one serves all that follow."""
    answers: Annotated[int, Meta(ge=1, le=64)] = 4
    """At most so many are shown in one prompt."""
    characters: Annotated[int, Meta(ge=16, le=4000)] = 240
    """Characters of each answer that are shown at most, those at its end."""
    peers: Annotated[int, Meta(ge=0, le=MOST_PEERS_SHOWN)] = 3
    """At most so many peers' answers are shown beside the own ones."""

    def template(self, stage: int) -> str:
        """Returns the template of a stage from 1 on."""
        return self.templates[min(stage, len(self.templates)) - 1]


def revising(table: Mapping[str, Any] | None, profile: str) -> Revising:
    """Returns the table's meaning in a run of this profile. Raises ConfigError."""
    built_in = {"templates": [FOR_EMBEDDED]} if profile in EMBEDDED_PROFILES else {}
    try:
        found = msgspec.convert(built_in | dict(table or {}), Revising)
    except msgspec.ValidationError as error:
        raise ConfigError(
            f"SWARM_REVISE (revise) cannot be used: {error}; expected a table such as "
            '{"answers": 4, "characters": 240, "peers": 3, "templates": ["{answers} ... {question}"]}'
        ) from None
    for number, template in enumerate(found.templates, 1):
        if missing := [part for part in (QUESTION, ANSWERS) if template.count(part) != 1]:
            raise ConfigError(
                f"SWARM_REVISE (revise): the template of stage {number} has {missing[0]} "
                f"{template.count(missing[0])} times, expected once"
            )
    return found
