"""PROTOCOL.md says what the code refuses; its tables of fields and its examples are generated."""

from __future__ import annotations

import re
from pathlib import Path

import swarm
from swarm.types import OTHER_VERSION

PACKAGE = Path(swarm.__file__).parent


def test_the_table_of_refusals_lists_every_reason_of_the_code() -> None:
    page = (PACKAGE / "wire" / "PROTOCOL.md").read_text("utf-8")
    listed = set(re.findall(r"^\| `(\w+)` \| .* \| (?:file|group) \|$", page, re.MULTILINE))
    code = "".join(file.read_text("utf-8") for file in PACKAGE.rglob("*.py"))
    raised = set(re.findall(r'(?:ProtocolError|Refused)\(\s*"(\w+)"', code))
    assert listed == raised | {"not_a_file", "unreadable", OTHER_VERSION}
