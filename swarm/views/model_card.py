"""A model card: what a node's model was trained on, how, and what came of it, from the run's records.

the node's rows ─▶ how it learned (card_learning), what it was trained on ─┐
exam.json ───────▶ exam (card_learning)                                    ├─▶ README.md, of strangers' words
its last start ──▶ how it was made (card_making)                          ─┘   nothing but text
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from msgspec import UnsetType

from swarm.policy.embedded import EMBEDDED
from swarm.records.table import Odd
from swarm.views.card_learning import exam_of, how_it_learned
from swarm.views.card_making import how_it_was_made
from swarm.views.markdown import counted, plain, shown
from swarm.wire.judge_messages import ExamRow
from swarm.wire.messages import NodeStart
from swarm.wire.metrics import MetricsRow

LONGEST_PATH = 1000
NOT_SAID = "not said"
_MEANINGS = {
    "train": "train (others may train on them)",
    "train+publish": "train+publish (others may train on them and publish them again)",
}
_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}", re.ASCII)


@dataclass(frozen=True)
class CardContents:
    """Holds what a card is made of."""

    node: str
    experiment: str
    rounds_done: int
    """Behind the checkpoint; later rows do not count."""
    rows: Sequence[MetricsRow]
    """The node's, one per round and stage."""
    odd: Odd | None = None
    """What was wrong with them."""
    base: str = ""
    """Base of an adapter, what it was trained beside; empty: all weights were trained."""
    merged: bool = False
    """The adapter has been added to it."""
    start: NodeStart | None = None
    """The node's last; None: it has left no record of one."""
    exam: Sequence[ExamRow] = ()
    """Rows of all nodes."""


def model_card(made: CardContents, redact: Callable[[str], str] = str) -> str:
    """Writes the card in Markdown, with the header of a Hugging Face model card.

    Args:
        redact: takes paths, addresses and secrets out of what the node was started with.
    """
    lived = [row for row in made.rows if row.round < made.rounds_done]
    model, node = lived[-1].model if lived else "", shown(made.node)
    return "\n".join(
        [
            *_header(made),
            f"# {node}",
            "",
            f"{shown(model) or 'A model'} after {made.rounds_done} rounds as {node} of {shown(made.experiment)}:"
            " post-trained with *swarm* by GRPO, on its own answers and on its peers' (SAPO, arXiv:2509.08721).",
            "",
            *(_of_an_adapter(made.base, merged=made.merged) if made.base else []),
            *how_it_learned(lived),
            *exam_of(made.node, made.exam),
            *_texts(lived, made.odd),
            *how_it_was_made(made.start, redact),
        ]
    )


def _header(made: CardContents) -> list[str]:
    """Returns the card's header as the Hub reads it. It leaves out a base model that the Hub cannot know: it would
    refuse the card."""
    base = made.base or _begun_from(made.start)
    return [
        "---",
        f"library_name: {'peft' if made.base and not made.merged else 'transformers'}",
        "pipeline_tag: text-generation",
        *([f"base_model: {json.dumps(base)}"] if _HUB_ID.fullmatch(base) else []),
        "tags: [swarm, sapo, grpo]",
        f"model_name: {json.dumps(plain(made.node))}",
        "---",
        "",
    ]


def _begun_from(start: NodeStart | None) -> str:
    """Returns the model that the node was started with; empty where nobody says it."""
    models = start.settings.get("model") if start else None
    return models[0] if isinstance(models, list) and len(models) == 1 and isinstance(models[0], str) else ""


def _texts(lived: Sequence[MetricsRow], odd: Odd | None) -> list[str]:
    own, external = sum(row.local_groups for row in lived), sum(row.external_groups for row in lived)
    rounds = len({row.round for row in lived})
    return [
        "## What it was trained on",
        "",
        f"In {rounds} rounds: {own} groups of its own, {external} of others. {_MISSING if odd else ''}".strip(),
        "",
        *counted("texts of", "groups", {"itself": own} | _summed(row.external_by_peer for row in lived)),
        *counted("written by", "groups", _summed(row.external_by_model for row in lived)),
        *counted("licence of others' texts", "groups", _said(lived, external, "external_by_licence")),
        *counted("consent of their authors", "groups", _meant(_said(lived, external, "external_by_consent"))),
        "Licence and consent are what each publisher says of its own texts; nobody has checked them. This card",
        "names no licence of the weights: who publishes them chooses one, with these tables in view.",
        "",
    ]


def _of_an_adapter(base: str, *, merged: bool) -> list[str]:
    name = json.dumps(plain(base, LONGEST_PATH))
    if merged:
        text = [
            "The whole model, in fp32: low-rank matrices (LoRA) that were trained, added to the weights of",
            f"{shown(base)} as its files have them. What was trained beside fewer bits of these saw what quantising",
            "makes of them.",
        ]
        return ["## What this is", "", *text, ""]
    loading = [
        "```python",
        "from peft import PeftModel",
        "from transformers import AutoModelForCausalLM",
        "",
        f"base = AutoModelForCausalLM.from_pretrained({name})",
        'model = PeftModel.from_pretrained(base, "this folder")',
        "```",
    ]
    text = [
        f"Low-rank matrices (LoRA) in PEFT's form, of use beside the weights of {shown(base)} alone. Inference servers",
        "load the two together; `swarm model export --merged` makes one model of them.",
    ]
    if base in EMBEDDED:
        text.append(f"The base is part of *swarm*: `swarm.policy.embedded.embedded_path({name})` is its folder.")
    return ["## What this is", "", *text, "", *loading, ""]


_MISSING = "Some of its rows were left out or changed, for they were out of range."


def _summed(counts: Iterable[Mapping[str, int] | UnsetType]) -> Counter[str]:
    total: Counter[str] = Counter()
    for one in counts:
        total.update({} if isinstance(one, UnsetType) else {name: max(0, count) for name, count in one.items()})
    return total


def _said(rows: Sequence[MetricsRow], external: int, column: str) -> Counter[str]:
    """Sums groups up by what was said, and those of which nothing was."""
    total = _summed(getattr(row, column) for row in rows)
    return total + Counter({NOT_SAID: max(0, external - total.total())})


def _meant(said: Mapping[str, int]) -> dict[str, int]:
    return {_MEANINGS.get(name, name): count for name, count in said.items()}
