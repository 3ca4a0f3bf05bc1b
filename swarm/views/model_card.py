"""A model card: what a node's model was trained on, how, and what came of it, from the run's records.

the node's rows ─▶ how it learned, what it was trained on ─┐
exam.json ───────▶ exam                                    ├─▶ README.md, of strangers' words nothing but text
its last start ──▶ how it was made                        ─┘
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from msgspec import UNSET, UnsetType

from swarm.config import variable
from swarm.config.constraints import as_text, choices, options
from swarm.config.settings import FIELDS
from swarm.harmless import printable
from swarm.policy.embedded import EMBEDDED
from swarm.records.rows import one_per_round
from swarm.records.starts import WHERE
from swarm.records.table import Odd, measured
from swarm.wire.judge_messages import ExamRow
from swarm.wire.messages import NodeStart
from swarm.wire.metrics import MetricsRow

MOST_NAMED = 100
"""Entries of one table; those beyond are summed up."""
MOST_SPANS = 20
"""Rows of the table of rewards."""
LONGEST_NAME, LONGEST_VALUE = 80, 400
"""Characters."""
NOT_SAID = "not said"
NOT_TOLD = "(of this machine)"
"""Stands for a model or task whose name may be a path."""
ALWAYS = frozenset(
    (
        *("model", "tasks", "profile", "local_groups", "external_groups", "generations", "max_rounds"),
        *("learning_rate", "loss", "sampler", "adapter", "seed"),
    )
)
"""Settings that a card names whether they are at their defaults or not."""
_MEANINGS = {
    "train": "train (others may train on them)",
    "train+publish": "train+publish (others may train on them and publish them again)",
}
_MARKS = frozenset("\\`*_[]#|~")
_NAME = re.compile(r"[A-Za-z0-9][\w.+:-]*(/[A-Za-z0-9][\w.+:-]*)?", re.ASCII)
"""Names of tasks, models and functions; no path from the root or the home."""
_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}", re.ASCII)


@dataclass(frozen=True)
class CardContents:
    """Holds what a card is made of."""

    node: str
    experiment: str
    rounds_done: int
    """Behind the checkpoint; later rows do not count."""
    rows: Sequence[MetricsRow]
    """The node's, one per round and stage, in their order."""
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


def model_card(made: CardContents) -> str:
    """Writes the card in Markdown, with the header of a Hugging Face model card."""
    lived = [row for row in made.rows if row.round < made.rounds_done]
    model, node = lived[-1].model if lived else "", shown(made.node)
    parts = [
        _header(made),
        f"# {node}",
        f"{shown(model) or 'A model'} after {made.rounds_done} rounds as {node} of {shown(made.experiment)}:"
        " post-trained with *swarm* by GRPO, on its own answers and on its peers' (SAPO, arXiv:2509.08721).",
        _of_an_adapter(made.base, merged=made.merged) if made.base else "",
        _how_it_learned(lived),
        _exam(made.node, made.exam),
        _texts(lived, made.odd),
        _how_it_was_made(made.start) if made.start else "",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _header(made: CardContents) -> str:
    """Returns the card's header as the Hub reads it. It leaves out a base model that the Hub cannot know: it would
    refuse the card."""
    models = made.start.settings.get("model") if made.start else None
    begun_from = models[0] if isinstance(models, list) and len(models) == 1 and isinstance(models[0], str) else ""
    base = made.base or begun_from
    named = f"base_model: {json.dumps(base)}\n" if _HUB_ID.fullmatch(base) else ""
    return (
        f"---\nlibrary_name: {'peft' if made.base and not made.merged else 'transformers'}\n"
        f"pipeline_tag: text-generation\n{named}tags: [swarm, sapo, grpo]\n"
        f"model_name: {json.dumps(plain(made.node))}\n---"
    )


def _of_an_adapter(base: str, *, merged: bool) -> str:
    """Returns the section on an adapter and its base; a base that is a path of this machine is not named."""
    base = base if _NAME.fullmatch(base) else NOT_TOLD
    if merged:
        return (
            "## What this is\n\nThe whole model, in fp32: low-rank matrices (LoRA) that were trained, added to the "
            f"weights of {shown(base)} as its files have them."
        )
    name = json.dumps(plain(base))
    embedded = f" The base is part of *swarm*: `swarm.policy.embedded.embedded_path({name})` is its folder."
    return (
        f"## What this is\n\nLow-rank matrices (LoRA) in PEFT's form, of use beside the weights of {shown(base)} "
        "alone. Inference servers load the two together; `swarm model export --merged` makes one model of them."
        f"{embedded if base in EMBEDDED else ''}\n\n"
        "```python\nfrom peft import PeftModel\nfrom transformers import AutoModelForCausalLM\n\n"
        f"base = AutoModelForCausalLM.from_pretrained({name})\n"
        'model = PeftModel.from_pretrained(base, "this folder")\n```'
    )


def _how_it_learned(lived: Sequence[MetricsRow]) -> str:
    """Returns the section; empty where no reward was measured."""
    rows = measured(one_per_round(lived))
    if not rows:
        return ""
    parts = min(MOST_SPANS, len(rows))
    spans = [rows[len(rows) * n // parts : len(rows) * (n + 1) // parts] for n in range(parts)]
    head = ("rounds", "reward", "tagged", "reward given tagged", "groups of others")
    return (
        "## How it learned\n\nMean rewards per completion, own questions, from 0 to 1. Tagged are completions with a "
        f"closed `<answer>`.\n\n{table(head, [_span(span) for span in spans])}"
    )


def _span(rows: Sequence[MetricsRow]) -> tuple[str, ...]:
    first, last = rows[0].round, rows[-1].round
    given = [row.reward_given_tagged for row in rows if row.reward_given_tagged is not UNSET]
    return (
        f"{first}" if first == last else f"{first} to {last}",
        _figure(fmean(row.my_reward for row in rows)),
        _figure(fmean(row.answer_tag_rate for row in rows)),
        _figure(fmean(given) if given else None),
        str(sum(row.external_groups for row in rows)),
    )


def _exam(node: str, exam: Iterable[ExamRow]) -> str:
    """Returns the section on held-out questions; empty where the node was not examined."""
    mine = [row for row in exam if row.node_id == node]
    several = len({row.stage or 0 for row in mine}) > 1
    last = max((row.rounds_done for row in mine), default=0)
    before = {(row.stage or 0, row.task): row for row in mine if row.rounds_done == 0}
    after = {(row.stage or 0, row.task): row for row in mine if row.rounds_done == last > 0}
    rows = []
    for (stage, task), row in sorted(after.items())[:MOST_NAMED]:
        was = before.get((stage, task))
        passed = (_figure(was.pass_at_1 if was else None), _figure(row.pass_at_1))
        earned = (_figure(was.mean_reward if was else None), _figure(row.mean_reward))
        rows.append((shown(task) + (f", stage {stage}" if several else ""), str(row.n), *passed, *earned))
    if not rows:
        return ""
    head = ("task", "questions", "pass@1 before", "after", "reward before", "after")
    return (
        "## Exam\n\nOn held-out questions that training never asks (`swarm judge exam`), before it and after "
        f"{last} rounds.\n\n{table(head, rows)}"
    )


def _texts(lived: Sequence[MetricsRow], odd: Odd | None) -> str:
    own, external = sum(row.local_groups for row in lived), sum(row.external_groups for row in lived)
    missing = " Some of its rows were left out or changed, for they were out of range." if odd else ""
    consent = _said(lived, external, "external_by_consent").items()
    parts = [
        "## What it was trained on",
        f"In {len({row.round for row in lived})} rounds: {own} groups of its own, {external} of others.{missing}",
        counted("texts of", "groups", {"itself": own} | _summed(row.external_by_peer for row in lived)),
        counted("written by", "groups", _summed(row.external_by_model for row in lived)),
        counted("licence of others' texts", "groups", _said(lived, external, "external_by_licence")),
        counted("consent of their authors", "groups", {_MEANINGS.get(said, said): count for said, count in consent}),
        "Licence and consent are what each publisher says of its own texts; nobody has checked them. This card\n"
        "names no licence of the weights: who publishes them chooses one, with these tables in view.",
    ]
    return "\n\n".join(part for part in parts if part)


def _summed(counts: Iterable[Mapping[str, int] | UnsetType]) -> Counter[str]:
    total: Counter[str] = Counter()
    for one in counts:
        total.update({} if isinstance(one, UnsetType) else {name: max(0, count) for name, count in one.items()})
    return total


def _said(rows: Sequence[MetricsRow], external: int, column: str) -> Counter[str]:
    """Sums groups up by what was said, and those of which nothing was."""
    total = _summed(getattr(row, column) for row in rows)
    return total + Counter({NOT_SAID: max(0, external - total.total())})


def _how_it_was_made(start: NodeStart) -> str:
    """Returns settings and versions: what is of this machine alone, as paths and addresses, is not among them."""
    settings = [(f"`{variable(name)}`", shown(text, LONGEST_VALUE)) for name, text in _settings(start.settings)]
    versions = [(shown(name), shown(text)) for name, text in sorted(start.versions.items())[:MOST_NAMED]]
    parts = [
        "## How it was made",
        "The seed gives the same questions again.",
        table(("setting", "value"), settings),
        table(("library", "version"), versions),
    ]
    return "\n\n".join(part for part in parts if part)


def _settings(recorded: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Returns setting -> value in words: those of ALWAYS, and numbers and choices that are not at their defaults."""
    known = [name for name in FIELDS if name in recorded and name not in WHERE]
    told = [name for name in known if name in ALWAYS or (_is_plain(name) and recorded[name] != FIELDS[name].default)]
    return [(name, _value(recorded[name])) for name in told if recorded[name] is not None]


def _is_plain(name: str) -> bool:
    """Tells whether a setting is a number, a switch or one of some names: no text of its user's can be in it."""
    kind = FIELDS[name].type
    return bool(choices(kind)) or {*options(kind)} <= {bool, int, float}


def _value(value: Any) -> str:
    if isinstance(value, str | list):
        texts = value if isinstance(value, list) else [value]
        return ",".join(text if isinstance(text, str) and _NAME.fullmatch(text) else NOT_TOLD for text in texts)
    return as_text(value) if isinstance(value, bool | int | float) else NOT_TOLD


# ── words and tables ────────────────────────────────────────────────────────────────────────────────────────────────
def plain(text: str, longest: int = LONGEST_NAME) -> str:
    """Returns one line of at most so many characters."""
    return printable(text)[:longest]


def shown(text: str, longest: int = LONGEST_NAME) -> str:
    """Returns the text as `plain` does, with all escaped that Markdown or HTML would obey."""
    return "".join(f"\\{c}" if c in _MARKS else f"&#{ord(c)};" if c in "<>&" else c for c in plain(text, longest))


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Returns a table; empty where there are no rows. Cells are taken as they are."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines) if rows else ""


def counted(what: str, of: str, counts: Mapping[str, int]) -> str:
    """Returns a table of names and how many there are, the largest first; empty for nothing."""
    ranked = sorted(((count, name) for name, count in counts.items() if count), key=lambda one: (-one[0], one[1]))
    rows = [(shown(name), str(count)) for count, name in ranked[:MOST_NAMED]]
    rest = sum(count for count, _ in ranked[MOST_NAMED:])
    return table((what, of), [*rows, *([("others", str(rest))] if rest else [])])


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
