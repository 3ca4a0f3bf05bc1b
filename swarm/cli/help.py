"""Shows help in two layers: `--help` what people turn, `--help-all` everything.

A flag of a setting is of the first layer where the setting's declaration says so (`first` of swarm.config.constraints.
setting). Panels of the second layer are groups that `further` made. What a flag of every command means is looked up
here: the declarations are parsed for it, which most commands need not wait for.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from cyclopts import Group

if TYPE_CHECKING:
    from cyclopts.help import DefaultFormatter, HelpEntry, HelpPanel
    from rich.console import Console, ConsoleOptions

ALL = "--help-all"


class LayeredFormatter:
    """Prints what is of the layer that is asked for, and counts what it leaves out."""

    def __init__(self) -> None:
        self.shows_all = False
        self.left_out = 0

    def ask(self, shows_all: bool) -> None:
        """Begin one help, of the first layer or of both."""
        self.shows_all, self.left_out = shows_all, 0

    def __call__(self, console: Console, options: ConsoleOptions, panel: HelpPanel, second: bool = False) -> None:
        """Print a panel's entries that are of the layer; nothing where none is. `second`: all are of the second one."""
        shown = [_explained(one) for one in panel.entries if self.shows_all or not (second or _is_further(one))]
        self.left_out += len(panel.entries) - len(shown)
        if shown:
            self._formatter(console, options, panel.copy(entries=shown))

    def render_usage(self, console: Console, options: ConsoleOptions, usage: Any) -> None:
        self._formatter.render_usage(console, options, usage)

    def render_description(self, console: Console, options: ConsoleOptions, description: Any) -> None:
        self._formatter.render_description(console, options, description)

    @cached_property
    def _formatter(self) -> DefaultFormatter:
        from cyclopts.help import DefaultFormatter  # here: most commands show no help, and it is half of cyclopts

        return DefaultFormatter()


LAYERS = LayeredFormatter()


def further(title: str, sort_key: int) -> Group:
    """Returns a group whose panel is of the second layer."""
    return Group(title, sort_key=sort_key, help_formatter=partial(LAYERS, second=True))


def _is_further(entry: HelpEntry) -> bool:
    from swarm.cli.flags import SETTING_OF_FLAG  # here: most commands show no help
    from swarm.config.settings import FIELDS

    settings = [SETTING_OF_FLAG[name] for name in _names(entry) if name in SETTING_OF_FLAG]
    return bool(settings) and not any(FIELDS[name].metadata["first"] for name in settings)


def _names(entry: HelpEntry) -> Iterator[str]:
    return (name.removeprefix("--").replace("-", "_") for name in entry.positive_names if name.startswith("--"))


def _explained(entry: HelpEntry) -> HelpEntry:
    """Returns the entry with what its setting means, where the flag is one of CommonFlags and says nothing itself."""
    from cyclopts.help import InlineText

    said = entry.description
    if not isinstance(said, InlineText) or getattr(said.primary_renderable, "markup", None) != "":
        return entry
    from swarm.config.declared import COMMON, DECLARED  # here: most commands show no help

    for name in _names(entry):
        if name in COMMON:
            return entry.copy(description=InlineText.from_format(DECLARED[name].help(), format="markdown"))
    return entry
