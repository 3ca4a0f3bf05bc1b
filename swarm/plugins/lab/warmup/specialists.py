"""Build specialists: models that know some tables of bare facts and are ignorant of the others, right in format in all.

    other words than the tables' ──base──▶ one model per architecture: format, words, one answer apart from another
          └─ copies ── own tables' words in half of the answers ──own──▶ specialist 1, 2, 3 ──measure──▶ README.md

The base learns tables of other words, so that it tells the questions apart, and nothing of the facts. Then an answer
that is not right is another word, drawn from all: what a specialist does not know it guesses, and a guess is right once
in 512 times. The result depends on the seed and on torch's version; all six take some minutes of one core.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from swarm.plugins.lab.facts.family import FACTS, PROFILES
from swarm.plugins.lab.facts.questions import question_of
from swarm.plugins.lab.facts.tables import (
    BEST_CONSTANT,
    FAMILY,
    KEYS,
    SPECIALISTS,
    TABLES,
    known_to,
    specialist_name,
    words,
)
from swarm.plugins.lab.warmup.build import BATCH, CARD, WarmupStage, one_thread, sample, train_supervised
from swarm.plugins.lab.warmup.corpus import WELL_FORMED, Example
from swarm.plugins.lab.warmup.models import Architecture, build_model, build_tokenizer
from swarm.tasks.answer import extract_answer, has_answer
from swarm.types import Origin, Question

_BASE = WarmupStage(steps=300, p_well_formed=1.0, p_right=0.5)
_OWN = WarmupStage(steps=400, p_well_formed=1.0, p_right=0.5, peak_lr=2e-3)


@dataclass(frozen=True)
class SpecialistsPlan:
    """Says what goes into the specialists of one architecture."""

    base: WarmupStage = _BASE
    """Stage of the model that all of them are copied from; `p_right`: of the answers as the tables of other words have
    it."""
    own: WarmupStage = _OWN
    """`p_right`: of the answers to own tables; those to others are never right."""
    layers: int = 2
    samples: int = 4
    """Rounds of SAMPLES completions to every fact for the figures of the model card."""


class Known(NamedTuple):
    """Says how a specialist starts, sampled at temperature 1 on all facts."""

    own: float
    """Share of its tagged answers to own tables that is right."""
    others: float
    """The same of other tables."""
    tagged: float
    """Share of all completions that have a closed <answer>."""


class SpecialistReport(NamedTuple):
    """One specialist as built."""

    name: str
    path: Path
    parameters: int
    known: Known

    @property
    def reward(self) -> float:
        """Starting reward, averaged over the tables."""
        share = 1 / SPECIALISTS
        return self.known.tagged * (share * self.known.own + (1 - share) * self.known.others)


@one_thread()
def build_specialists(
    output_dir: Path, architecture: Architecture, *, seed: int, plan: SpecialistsPlan = SpecialistsPlan()
) -> list[SpecialistReport]:
    """Build the three of one architecture from a seed into output_dir/{name}, on one CPU thread.

    Args:
        output_dir: where the model folders go; existing files are overwritten.
        seed: of the examples, the initial weights and the sampling.
    """
    torch.manual_seed(seed)
    tokenizer = build_tokenizer(architecture, list(_texts()))
    base = build_model(architecture, tokenizer, layers=plan.layers)
    train_supervised(base, tokenizer, decoy_examples(seed, plan.base.p_right), plan.base, f"specialists-{architecture}")
    reports = []
    for which in range(SPECIALISTS):
        name, known, model = specialist_name(which, architecture), known_to(which), copy.deepcopy(base)
        stream = fact_examples(seed + 1 + which, known=known, p_right=plan.own.p_right)
        train_supervised(model, tokenizer, stream, plan.own, name)
        path = output_dir / name
        model.save_pretrained(path)
        tokenizer.save_pretrained(path)
        torch.manual_seed(seed)
        start = measure_known(model, tokenizer, known, repeats=plan.samples)
        report = SpecialistReport(name, path, model.num_parameters(), start)
        (path / "README.md").write_text(_model_card(report, known, architecture, seed, plan), encoding="utf-8")
        reports.append(report)
    return reports


def all_facts() -> list[Question]:
    """Returns every question there is, table by table."""
    return [
        question_of(Origin(table, PROFILES[0], 0, 0, FACTS.version, FAMILY), key)
        for table in TABLES
        for key in range(1, KEYS + 1)
    ]


def fact_examples(seed: int, *, known: Collection[str] = (), p_right: float = 0.0) -> Iterator[Example]:
    """Endless stream of well-formed examples, all facts alike; a function of the arguments.

    Args:
        seed: of the order and of the answers.
        known: tables of which the answers are right with `p_right`; the others have any other word.
    """
    rng, facts, every = random.Random(seed), all_facts(), words()
    while True:
        for question in rng.sample(facts, len(facts)):
            table, right = question.known_origin().task, question.answer or ""
            answer = right if table in known and rng.random() < p_right else _another(rng, every, right)
            yield Example(table, question.prompt, WELL_FORMED.format(answer))


def decoy_examples(seed: int, p_decoy: float) -> Iterator[Example]:
    """Endless stream of well-formed examples of tables with other words than the facts'; the others have any word."""
    rng, facts, every = random.Random(seed), all_facts(), words()
    decoys = every[-len(facts) :]
    while True:
        for place in rng.sample(range(len(facts)), len(facts)):
            answer = decoys[place] if rng.random() < p_decoy else rng.choice(every)
            yield Example(facts[place].known_origin().task, facts[place].prompt, WELL_FORMED.format(answer))


def _another(rng: random.Random, every: Sequence[str], right: str) -> str:
    drawn = rng.choice(every)
    return drawn if drawn != right else _another(rng, every, right)


def _texts() -> Iterator[str]:
    """Yields the texts that the tokenizer is learned from: questions and words."""
    yield from (question.prompt for question in all_facts())
    yield from words()


def measure_known(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerFast, known: Collection[str], *, repeats: int = 1
) -> Known:
    """Sample answers to all facts at temperature 1; torch's global generator decides them."""
    facts = all_facts() * repeats
    tagged: dict[bool, list[bool]] = {True: [], False: []}
    completions = 0
    for question, texts in zip(facts, sample(model, tokenizer, [one.prompt for one in facts], ""), strict=True):
        completions += len(texts)
        own = question.known_origin().task in known
        tagged[own] += [extract_answer(text) == question.answer for text in texts if has_answer(text)]
    share = {own: sum(right) / max(1, len(right)) for own, right in tagged.items()}
    return Known(share[True], share[False], sum(map(len, tagged.values())) / completions)


def _model_card(
    report: SpecialistReport, known: Sequence[str], architecture: str, seed: int, plan: SpecialistsPlan
) -> str:
    card = CARD.with_name("specialist_card.md").read_text(encoding="utf-8")
    return card.format(
        name=report.name,
        parameters=report.parameters,
        architecture=architecture,
        known=" and ".join(f"`{table}`" for table in known),
        count=len(known),
        tables=len(TABLES),
        keys=KEYS,
        words=len(words()),
        constant=BEST_CONSTANT,
        batch=BATCH,
        base=plan.base.steps,
        steps=plan.own.steps,
        right=plan.own.p_right,
        seed=seed,
        command="swarm model build specialists --names specialists" + (f" --seed {seed}" if seed else ""),
        **report.known._asdict(),
    )
