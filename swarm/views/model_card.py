"""A model card: what a node's model was trained on, counted from its rows; of strangers' words nothing but text."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from msgspec import UnsetType

from swarm.harmless import printable
from swarm.policy.embedded import EMBEDDED
from swarm.records.odd import Odd
from swarm.wire.metrics import MetricsRow

MOST_NAMED = 100
"""Entries of one table; those beyond are summed up."""
LONGEST_NAME, LONGEST_PATH = 80, 1000
NOT_SAID = "not said"
_MEANINGS = {
    "train": "train (others may train on them)",
    "train+publish": "train+publish (others may train on them and publish them again)",
}


def model_card(
    node: str,
    experiment: str,
    rounds_done: int,
    rows: Sequence[MetricsRow],
    odd: Odd | None = None,
    *,
    base: str = "",
    merged: bool = False,
) -> str:
    """In Markdown, with the header of a Hugging Face model card.

    Args:
        rounds_done: behind the checkpoint; later rows do not count.
        rows: the node's, one per round and stage.
        odd: what was wrong with them.
        base: of an adapter, what it was trained beside; empty: all weights were trained.
        merged: the adapter has been added to it.
    """
    lived = [row for row in rows if row.round < rounds_done]
    own, external = sum(row.local_groups for row in lived), sum(row.external_groups for row in lived)
    rounds, model = len({row.round for row in lived}), lived[-1].model if lived else ""
    return "\n".join(
        [
            "---",
            f"library_name: {'peft' if base and not merged else 'transformers'}",
            "pipeline_tag: text-generation",
            "tags: [swarm, sapo, grpo]",
            f"model_name: {json.dumps(_plain(node))}",
            "---",
            "",
            f"# {_text(node)}",
            "",
            f"{_text(model) or 'A model'} after {rounds_done} rounds as {_text(node)} of {_text(experiment)}:"
            " post-trained with *swarm* by GRPO, on its own answers and on its peers' (SAPO, arXiv:2509.08721).",
            "",
            *(_of_an_adapter(base, merged=merged) if base else []),
            "## What it was trained on",
            "",
            f"In {rounds} rounds: {own} groups of its own, {external} of others. {_MISSING if odd else ''}".strip(),
            "",
            *_table("texts of", "groups", {"itself": own} | _summed(row.external_by_peer for row in lived)),
            *_table("written by", "groups", _summed(row.external_by_model for row in lived)),
            *_table("licence of others' texts", "groups", _said(lived, external, "external_by_licence")),
            *_table("consent of their authors", "groups", _meant(_said(lived, external, "external_by_consent"))),
            "Licence and consent are what each publisher says of its own texts; nobody has checked them. This card",
            "names no licence of the weights: who publishes them chooses one, with these tables in view.",
            "",
        ]
    )


def _of_an_adapter(base: str, *, merged: bool) -> list[str]:
    name = json.dumps(printable(base)[:LONGEST_PATH])
    if merged:
        text = [
            "The whole model, in fp32: low-rank matrices (LoRA) that were trained, added to the weights of",
            f"{_text(base)} as its files have them. What was trained beside fewer bits of these saw what quantising",
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
        f"Low-rank matrices (LoRA) in PEFT's form, of use beside the weights of {_text(base)} alone. Inference servers",
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
    """By what was said, and the groups of which nothing was."""
    total = _summed(getattr(row, column) for row in rows)
    return total + Counter({NOT_SAID: max(0, external - total.total())})


def _meant(said: Mapping[str, int]) -> dict[str, int]:
    return {_MEANINGS.get(name, name): count for name, count in said.items()}


def _table(what: str, counted: str, counts: Mapping[str, int]) -> list[str]:
    """The largest first; nothing for nothing."""
    ranked = sorted(((count, name) for name, count in counts.items() if count), key=lambda one: (-one[0], one[1]))
    if not ranked:
        return []
    rest = sum(count for count, _ in ranked[MOST_NAMED:])
    rows = [(_text(name), count) for count, name in ranked[:MOST_NAMED]] + ([("others", rest)] if rest else [])
    return [f"| {what} | {counted} |", "|---|---|", *(f"| {name} | {count} |" for name, count in rows), ""]


def _plain(text: str) -> str:
    return printable(text)[:LONGEST_NAME]


def _text(text: str) -> str:
    """Nothing that Markdown or HTML would obey."""
    return "".join(f"\\{c}" if c in _MARKS else f"&#{ord(c)};" if c in "<>&" else c for c in _plain(text))


_MARKS = frozenset("\\`*_[]#|~")
