"""Reads the commands of plugins, when a word is none of the core's.

entry point in `swarm.commands` ─▶ a module ─┬ COMMANDS   words -> Command
                                             └ GROUPS     first word -> what its help says (optional)
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

from swarm.cli.command import Command
from swarm.entry_points import DanglingError, EntryPoint, distribution_of, load


class CommandTable(NamedTuple):
    """The commands that plugins bring."""

    commands: dict[str, Command]
    groups: dict[str, str]
    problems: list[str]
    """One line for each plugin that cannot be had, and for each command whose words somebody else has."""


def read_tables(entries: Iterable[EntryPoint], commands: Collection[str], groups: Collection[str]) -> CommandTable:
    """Returns the commands of these entry points, without those whose words some command or group has already."""
    table = CommandTable({}, {}, [])
    for entry in entries:
        try:
            module = load(entry)
            named = {str(words): Command(*command) for words, command in module.COMMANDS.items()}
            texts = dict(getattr(module, "GROUPS", {}))
        except DanglingError as error:
            table.problems.append(str(error))
        except (AttributeError, TypeError, ValueError) as error:
            table.problems.append(f"{entry.value} of {distribution_of(entry)} has no table of commands: {error}")
        else:
            free = [words for words in named if _free(words, {*commands, *table.commands}, {*groups, *table.groups})]
            table.commands.update((words, named[words]) for words in free)
            firsts = {words.partition(" ")[0] for words in free if " " in words}
            table.groups.update((first, texts.get(first, "")) for first in firsts - {*groups, *table.groups})
            table.problems.extend(
                f"`swarm {words}` of {distribution_of(entry)} is left out: other commands have these words"
                for words in named
                if words not in free
            )
    return table


def _free(words: str, commands: Collection[str], groups: Collection[str]) -> bool:
    """Whether a command may be called so: one word, or two of which the first is no command."""
    first, _, rest = words.partition(" ")
    taken = first in commands if rest else first in groups
    return words not in commands and not taken and " " not in rest
