"""A model card: what a node's model was trained on, how, and what came of it, from the run's records.

the node's rows ─▶ how it learned, what it was trained on ─┐
exam.json ───────▶ exam                                    ├─▶ README.md, of strangers' words nothing but text
its last start ──▶ how it was made                        ─┘
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from swarm.config import variable
from swarm.config.constraints import as_text
from swarm.config.settings import FIELDS
from swarm.harmless import printable, quoted
from swarm.policy.embedded import EMBEDDED
from swarm.records.rows import one_per_round
from swarm.records.starts import WHERE
from swarm.records.table import Odd, measured
from swarm.wire.judge_messages import ExamRow
from swarm.wire.messages import NodeStart
from swarm.wire.metrics import MetricsRow

MOST_NAMED = 100
"""Entries of one table; those beyond are summed up."""
LONGEST_NAME = 80
"""Characters of a name."""
_MARKS = frozenset("\\`*_[]#|~")


def plain(text: str, longest: int = LONGEST_NAME) -> str:
    """Returns one line of at most so many characters."""
    return printable(text)[:longest]


def shown(text: str, longest: int = LONGEST_NAME) -> str:
    """Returns the text as `plain` does, with all escaped that Markdown or HTML would obey."""
    return "".join(f"\\{c}" if c in _MARKS else f"&#{ord(c)};" if c in "<>&" else c for c in plain(text, longest))


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Returns the lines of a table, and an empty one behind it; none where there are no rows. Cells are taken as they
    are."""
    if not rows:
        return []
    return [_line(head), "|" + "---|" * len(head), *map(_line, rows), ""]


def counted(what: str, of: str, counts: Mapping[str, int]) -> list[str]:
    """Returns a table of names and how many there are, the largest first; nothing for nothing."""
    ranked = sorted(((count, name) for name, count in counts.items() if count), key=lambda one: (-one[0], one[1]))
    rest = sum(count for count, _ in ranked[MOST_NAMED:])
    rows = [(shown(name), str(count)) for count, name in ranked[:MOST_NAMED]] + (
        [("others", str(rest))] if rest else []
    )
    return table((what, of), rows)


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


MOST_SPANS = 20
"""Rows of the table of rewards."""
MOST_BARS = 60
"""Characters of the curve."""
_BARS = "▁▂▃▄▅▆▇█"
T = TypeVar("T")


def how_it_learned(lived: Sequence[MetricsRow]) -> list[str]:
    """Returns the lines of the section; none where no reward was measured.

    Args:
        lived: rows that count, one per round and stage, in their order.
    """
    rows = measured(one_per_round(lived))
    if not rows:
        return []
    first, last = _ends(rows)
    return [
        "## How it learned",
        "",
        "Mean rewards per completion, own questions, from 0 to 1. Tagged are completions with a closed `<answer>`.",
        "",
        f"    {curve([row.my_reward for row in rows])}  rounds {rows[0].round} to {rows[-1].round}",
        "",
        *table(
            ("rounds", "reward", "tagged", "reward given tagged", "groups of others"),
            [_span(span) for span in _spans(rows, MOST_SPANS)],
        ),
        *table(
            ("task", f"reward in the first {len(first)} rounds", f"in the last {len(last)}"),
            [(shown(task), _mean_of(first, task), _mean_of(last, task)) for task in _tasks(rows)],
        ),
    ]


def curve(values: Sequence[float]) -> str:
    """Draws at most MOST_BARS bars, each the mean of as many values, from 0 to the largest."""
    means = [fmean(span) for span in _spans(values, MOST_BARS)]
    top = max(means, default=0.0)
    return "".join(_BARS[int(mean / top * (len(_BARS) - 1) + 0.5) if top > 0 else 0] for mean in means)


def exam_of(node: str, exam: Iterable[ExamRow]) -> list[str]:
    """Returns the lines of the section on held-out questions; none where the node was not examined."""
    mine = [row for row in exam if row.node_id == node]
    stages = {row.stage or 0 for row in mine}
    last = max((row.rounds_done for row in mine), default=0)
    before = {(row.stage or 0, row.task): row for row in mine if row.rounds_done == 0}
    after = {(row.stage or 0, row.task): row for row in mine if row.rounds_done == last > 0}
    if not after:
        return []
    rows = [
        (
            shown(task) + (f", stage {stage}" if len(stages) > 1 else ""),
            str(row.n),
            *_both("pass_at_1", before.get((stage, task)), row),
            *_both("mean_reward", before.get((stage, task)), row),
        )
        for (stage, task), row in sorted(after.items())[:MOST_NAMED]
    ]
    return [
        "## Exam",
        "",
        f"On held-out questions that training never asks (`swarm judge exam`), before it and after {last} rounds.",
        "",
        *table(("task", "questions", "pass@1 before", "after", "reward before", "after"), rows),
    ]


def _both(column: str, before: ExamRow | None, after: ExamRow) -> tuple[str, str]:
    return _figure(getattr(before, column, None)), _figure(getattr(after, column))


def _spans(values: Sequence[T], most: int) -> list[Sequence[T]]:
    """Returns the values in their order, in at most so many parts of about equal length."""
    parts = min(most, len(values))
    return [values[len(values) * n // parts : len(values) * (n + 1) // parts] for n in range(parts)]


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


def _ends(rows: Sequence[MetricsRow]) -> tuple[Sequence[MetricsRow], Sequence[MetricsRow]]:
    """Returns a tenth of the rounds at either end, ten at least where there are twenty."""
    count = min(max(10, len(rows) // 10), (len(rows) + 1) // 2)
    return rows[:count], rows[-count:]


def _tasks(rows: Sequence[MetricsRow]) -> list[str]:
    return sorted({task for row in rows for task in row.task_rewards})[:MOST_NAMED]


def _mean_of(rows: Sequence[MetricsRow], task: str) -> str:
    rewards = [row.task_rewards[task] for row in rows if task in row.task_rewards]
    return _figure(fmean(rewards) if rewards else None)


def _figure(value: float | object | None) -> str:
    return f"{value:.3f}" if isinstance(value, float | int) else "-"


LONGEST_VALUE, LONGEST_COMMAND = 400, 4000
ALWAYS = (
    "model",
    "tasks",
    "profile",
    "local_groups",
    "external_groups",
    "generations",
    "max_rounds",
    "learning_rate",
    "loss",
    "sampler",
    "adapter",
    "seed",
)
"""Settings that a card names whether they are at their defaults or not."""


def how_it_was_made(start: NodeStart | None, redact: Callable[[str], str]) -> list[str]:
    """Returns the lines of the section; none where there is no record of a start.

    Args:
        redact: takes paths, addresses and secrets out of a text.
    """
    if start is None:
        return []
    settings = [
        (f"`{variable(name)}`", shown(redact(value), LONGEST_VALUE)) for name, value in _settings(start.settings)
    ]
    versions = sorted(start.versions.items())[:MOST_NAMED]
    return [
        "## How it was made",
        "",
        *_again(redact(printable(start.command)[:LONGEST_COMMAND])),
        *table(("setting", "value"), settings),
        *table(("library", "version"), [(shown(name), shown(redact(version))) for name, version in versions]),
    ]


def _again(command: str) -> list[str]:
    """Returns the command as a block by indentation, which no mark in it can end."""
    if not command.strip():
        return []
    text = [
        "The command that made the run; `<...>` stands for what is of one machine. The seed gives the same questions",
        "again.",
    ]
    return [*text, "", f"    {command}", ""]


def _settings(recorded: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Returns setting -> value in words: those of ALWAYS, and those not at their defaults; no unknown names."""
    known = [name for name in FIELDS if name in recorded and name not in WHERE and not FIELDS[name].metadata["secret"]]
    told = [name for name in known if name in ALWAYS or recorded[name] != _as_recorded(FIELDS[name].default)]
    return [(name, _value(recorded[name])) for name in told if recorded[name] is not None]


def _as_recorded(default: Any) -> Any:
    return list(default) if isinstance(default, tuple) else default


def _value(value: Any) -> str:
    try:
        return as_text(value)
    except (TypeError, ValueError, RecursionError, msgspec.MsgspecError):
        return quoted(value)


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
            f"{shown(base)} as its files have them.",
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
