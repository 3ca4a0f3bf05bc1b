"""Puts up all bars in this process and prints them: a JSON list of swarm.tasks.bars.Bar."""

from __future__ import annotations

import sys

import msgspec

from swarm.tasks.bars import put_up

sys.stdout.buffer.write(msgspec.json.encode(put_up().bars) + b"\n")
