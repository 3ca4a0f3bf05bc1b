"""Shows help in two layers: `--help` what people turn, `--help-all` everything.

A flag of a setting is of the first layer where the setting's declaration says so (`first` of swarm.config.constraints.
setting). Panels of the second layer are groups that `further` made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cyclopts import Group
from cyclopts.help import DefaultFormatter

if TYPE_CHECKING:
    from cyclopts.help import HelpEntry, HelpPanel
    from rich.console import Console, ConsoleOptions

ALL = "--help-all"


class LayeredFormatter(DefaultFormatter):
    """Prints what is of the layer that is asked for, and counts what it leaves out."""

    def __init__(self) -> None:
        super().__init__()
        self.shows_all = False
        self.left_out = 0

    def ask(self, shows_all: bool) -> None:
        """Begin one help, of the first layer or of both."""
        self.shows_all, self.left_out = shows_all, 0

    def __call__(self, console: Console, options: ConsoleOptions, panel: HelpPanel) -> None:
        """Print a panel's entries that are of the layer; nothing where none is."""
        shown = [entry for entry in panel.entries if self.shows_all or not _is_further(entry)]
        self.left_out += len(panel.entries) - len(shown)
        if shown:
            super().__call__(console, options, panel.copy(entries=shown))


class _Further:
    """Prints the panels of the second layer where both are asked for."""

    def __call__(self, console: Console, options: ConsoleOptions, panel: HelpPanel) -> None:
        if LAYERS.shows_all:
            LAYERS(console, options, panel)
        else:
            LAYERS.left_out += len(panel.entries)


LAYERS = LayeredFormatter()


def further(title: str, sort_key: int) -> Group:
    """Returns a panel that the first layer leaves out."""
    return Group(title, sort_key=sort_key, help_formatter=_Further())


def _is_further(entry: HelpEntry) -> bool:
    from swarm.cli.flags import SETTING_OF_FLAG  # here: most commands show no help
    from swarm.config.settings import FIELDS

    names = (name.removeprefix("--").replace("-", "_") for name in entry.positive_names if name.startswith("--"))
    settings = [SETTING_OF_FLAG[name] for name in names if name in SETTING_OF_FLAG]
    return bool(settings) and not any(FIELDS[name].metadata["first"] for name in settings)
