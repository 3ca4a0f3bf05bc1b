"""The longest conversation that a plan has to have room for, as the tasks' files say it; nothing is imported."""

from __future__ import annotations

from pathlib import Path

from swarm.config import Settings
from swarm.planner.node_memory import ONE_TURN, Talk
from swarm.tasks.python.source import turns_of
from swarm.tasks.registry import NO_TASKS

REPLY_TOKENS = 128
"""Assumed of a reply, with the chat template's marks: some hundred words. How long it is shows when it is made."""


def longest_talk(settings: Settings) -> Talk:
    """Returns the longest conversation among the tasks that the settings define."""
    table = settings.task_table or NO_TASKS
    files = [Path(asked["python"]) for asked in table.values() if "python" in asked]
    turns = max(map(turns_of, files), default=1)
    return Talk(turns, REPLY_TOKENS) if turns > 1 else ONE_TURN
