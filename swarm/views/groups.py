"""Rollout groups as text for a terminal: question, completions, what they earned, who trained on them. Pure."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence

from swarm.harmless import printable_lines
from swarm.records.groups import FoundGroups, Group, Learner, Shown
from swarm.views.text import first_lines, local_time, shorten

MOST_LEARNERS = 8
MOST_REFUSED = 8
LONGEST_REFUSAL = 200
_INDENT = "  "


def render(found: FoundGroups, *, width: int) -> str:
    """Returns all groups, and what could not be shown.

    Args:
        width: columns of the terminal.
    """
    parts = [render_group(group, width=width) for group in found.groups]
    if not found.groups:
        parts.append(_none(found))
    if found.more:
        parts.append(f"and {found.more} more groups: --groups shows more, --node, --task and --stage choose")
    if found.refused:
        lines = [f"warning {key}: {shorten(why, LONGEST_REFUSAL)}" for key, why in found.refused.items()]
        parts.append("\n".join(first_lines(lines, MOST_REFUSED, "more files that cannot be read")))
    return "\n\n".join(parts)


def _none(found: FoundGroups) -> str:
    if found.rounds is None:
        return "no rollouts are there: nobody has published any yet, or they were cleaned up without an archive"
    first, last = found.rounds
    return f"no group is of the round, stage, node and task that were asked for; there are rounds {first} to {last}"


def render_group(group: Group, *, width: int) -> str:
    """Returns one group, its completions one below the other."""
    parts = [
        *folded(_head(group), width),
        *_block("question", group.question + _left_out(group.cut), width),
        *([] if group.answer is None else _block("true answer", group.answer, width)),
        *_completions(group.completions, width),
        *folded(_learners(group.trained_on), width),
    ]
    return "\n".join(parts)


def _head(group: Group) -> str:
    task = shorten(group.task, 40) or "no task named"
    head = f"── {group.name}: round {group.round}, stage {group.stage}, {task}"
    model = f"by {shorten(group.model, 40)} after {group.rounds_trained} updates" if group.model else ""
    licence = f"licence {shorten(group.licence, 40)}" if group.licence else ""
    there = local_time(group.published_at)
    published = there.strftime("%Y-%m-%d %H:%M:%S") if there else "at an unknown time"
    return ", ".join(part for part in (head, model, f"published {published}", licence) if part)


def _learners(learners: Sequence[Learner]) -> str:
    if not learners:
        return "no other node trained on it"
    names = [f"{node} (round {round_})" for node, round_ in learners[:MOST_LEARNERS]]
    left = len(learners) - MOST_LEARNERS
    return f"trained on by {', '.join(names)}{f' and {left} more' if left > 0 else ''}"


def _block(title: str, text: str, width: int) -> list[str]:
    return [title, *(f"{_INDENT}{line}" for line in folded(text, width - len(_INDENT)))]


def _completions(completions: Sequence[Shown], width: int) -> Iterator[str]:
    for number, shown in enumerate(completions, 1):
        yield from (f"{_INDENT}{line}".rstrip() for line in _cell(number, shown, width - len(_INDENT)))


def _cell(number: int, shown: Shown, width: int) -> list[str]:
    lines = folded(f"[{number}] {verdict(shown)}", width)
    for turn, said in enumerate(shown.turns, 1):
        lines += [f"turn {turn}", *folded(said.response, width), "reply", *folded(said.reply, width)]
    if shown.turns:
        lines.append(f"turn {len(shown.turns) + 1}")
    return [*lines, *folded(shown.response + _left_out(shown.cut), width), ""]


def _left_out(characters: int) -> str:
    return f"\n... and {characters} characters more" if characters else ""


def verdict(shown: Shown) -> str:
    """Returns in words what a completion earned."""
    claimed = "no reward claimed" if shown.claimed_reward is None else f"reward {shown.claimed_reward:.3g}"
    advantage = "" if shown.advantage is None else f"advantage {shown.advantage:+.2f}"
    turns = f"{len(shown.turns) + 1} turns" if shown.turns else ""
    return ", ".join(filter(None, [claimed, advantage, turns, "" if shown.finished else "cut at the limit"]))


def folded(text: str, width: int) -> list[str]:
    """Returns a text as lines of so many columns at most, with nothing that a terminal obeys; broken at spaces."""
    lines: list[str] = []
    for line in printable_lines(text).expandtabs(4).split("\n"):
        lines += _fold(line, max(2, width))
    return lines


def _fold(line: str, width: int) -> Iterator[str]:
    while columns_of(line) > width:
        end = _end_within(line, width)
        space = line.rfind(" ", 1, end + 1)
        cut = space if space > end // 2 else end
        yield line[:cut].rstrip()
        line = line[cut:].lstrip()
    yield line


def _end_within(line: str, width: int) -> int:
    """Returns how many of a line's characters find room; at least one."""
    taken = 0
    for place, character in enumerate(line):
        taken += columns_of(character)
        if taken > width:
            return max(1, place)
    return len(line)


def columns_of(text: str) -> int:
    """Returns columns that a terminal takes for a text: two of a wide character, none of a mark that combines."""
    if text.isascii():
        return len(text)
    return sum(0 if unicodedata.combining(c) else 1 + (unicodedata.east_asian_width(c) in "WF") for c in text)
