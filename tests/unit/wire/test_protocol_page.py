"""PROTOCOL.md says what the code does: every field, every refusal, and examples that are the golden files."""

from __future__ import annotations

import json
import re
from pathlib import Path

import msgspec
import pytest

import swarm
from swarm.wire import messages
from swarm.wire.messages import NodeState
from tests.unit.wire.forms import FORMS, GOLDEN

PACKAGE = Path(swarm.__file__).parent
PAGE = (PACKAGE / "wire" / "PROTOCOL.md").read_text("utf-8")
STRUCTS = [t for t in [*vars(messages).values(), NodeState] if isinstance(t, type) and issubclass(t, msgspec.Struct)]
EXAMPLES = re.findall(r"<!-- (\S+) -->\n```json\n(.*?)```", PAGE, re.DOTALL)


def section(struct: type[msgspec.Struct]) -> str:
    """What the page says below the form's headline, or the table that is headed by its name."""
    name = struct.__name__
    match = re.search(rf"^(?:### {name}\b.*?(?=^### |\Z)|\| {name} \|.*?\n\n)", PAGE, re.DOTALL | re.MULTILINE)
    assert match, f"PROTOCOL.md says nothing of {name}"
    return match[0]


@pytest.mark.parametrize("struct", STRUCTS, ids=lambda struct: struct.__name__)
def test_every_field_of_every_form_is_on_the_page(struct: type[msgspec.Struct]) -> None:
    text = section(struct)
    missing = [name for name in struct.__struct_fields__ if f"`{name}`" not in text and name != "schema_version"]
    assert not missing
    assert "`schema_version`" in PAGE


def test_the_examples_are_the_golden_files() -> None:
    assert {name: json.loads(text) for name, text in EXAMPLES} == {
        name: json.loads((GOLDEN / name).read_bytes()) for name in FORMS
    }


def test_the_table_of_refusals_lists_every_reason_of_the_code() -> None:
    listed = set(re.findall(r"^\| `(\w+)` \| .* \| (?:file|group) \|$", PAGE, re.MULTILINE))
    code = "".join(file.read_text("utf-8") for file in PACKAGE.rglob("*.py"))
    raised = set(re.findall(r'(?:ProtocolError|Refused)\(\s*"(\w+)"', code)) | {"not_a_file", "unreadable"}
    assert listed == raised
