"""One command as its table lists it: the core's in main.py, a plugin's in the module that it registers."""

from __future__ import annotations

from typing import NamedTuple


class Command(NamedTuple):
    function: str
    """`module:function`, imported when called: of the core below swarm.cli, of a plugin in full."""
    help: str
    example: str
    """What people type, without `swarm` and the command's own words."""
