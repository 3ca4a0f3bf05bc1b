"""PROTOCOL.md says what the code refuses, and can be read in an hour; FORMS.md has the fields."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import swarm
from swarm.types import OTHER_VERSION
from swarm.wire import codec
from tests.unit.test_pages import anchors

PACKAGE = Path(swarm.__file__).parent
PROTOCOL, FORMS = PACKAGE / "wire" / "PROTOCOL.md", PACKAGE / "wire" / "FORMS.md"


def test_the_table_of_refusals_lists_every_reason_of_the_code() -> None:
    listed = set(re.findall(r"^\| `(\w+)` \| .* \| (?:file|group) \|$", PROTOCOL.read_text("utf-8"), re.MULTILINE))
    code = "".join(file.read_text("utf-8") for file in PACKAGE.rglob("*.py"))
    named = dict(re.findall(r'^([A-Z_]+) = "(\w+)"$', code, re.MULTILINE))
    said = re.findall(r'(?:ProtocolError|RefusedRequest)\(\s*(?:"(\w+)"|([A-Z_]+)),', code)
    raised = {reason or named[constant] for reason, constant in said}
    assert listed == raised | {"not_a_file", "unreadable", OTHER_VERSION}


def test_each_form_of_the_tree_has_its_fields() -> None:
    tree = re.findall(r"^\| `[^|]*\| [^|]* \| [^|]* \| (.*) \|$", PROTOCOL.read_text("utf-8"), re.MULTILINE)
    named = set(re.findall(r"\b[A-Z]\w+(?:File|Row|Start|State|Question|Answer)\b", " ".join(tree)))
    assert len(named) > 10
    assert {form.lower() for form in named} - anchors(FORMS) == set()


@pytest.mark.parametrize(
    ("bound", "said"),
    [
        (codec.MOST_GROUPS, "more than N groups, or completions in one"),
        (codec.MOST_COMPLETIONS, "more than N groups, or completions in one"),
        (codec.MOST_TOKENS, "lists of one length, at most N"),
        (codec.MOST_TOKENS_OF_FILE, "within the first N tokens of its file"),
        (codec.MOST_BRACKETS, "more than N `{` and `[`"),
    ],
)
def test_its_bounds_are_those_of_the_code(bound: int, said: str) -> None:
    assert said.replace("N", f"{bound:,}") in PROTOCOL.read_text("utf-8")


def test_it_is_short_enough_to_be_read() -> None:
    assert len(PROTOCOL.read_text("utf-8").split()) <= 6000
