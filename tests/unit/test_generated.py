"""Golden files, the tables and examples of FORMS.md, and those of docs/, follow from the declarations."""

from __future__ import annotations

from pathlib import Path

import pytest

from swarm.views.tables.frames import TABLES
from swarm.wire import messages
from tests.generate import ROOT, outputs
from tests.unit.wire.forms import FORMS, GOLDEN


@pytest.mark.parametrize(("path", "content"), outputs().items(), ids=lambda value: getattr(value, "name", ""))
def test_what_is_generated_is_up_to_date(path: Path, content: bytes) -> None:
    assert path.read_bytes().decode() == content.decode(), "run `make docs`"


def test_every_form_example_and_frame_has_its_place_on_a_page() -> None:
    page = (ROOT / "swarm/wire/FORMS.md").read_text("utf-8")
    forms = [name for name in messages.__all__ if name[0].isupper() and name not in ("SCHEMA_VERSION", "Count")]
    assert [name for name in [*forms, *FORMS] if f"\n<!-- {name} -->\n" not in page] == []
    frames = (ROOT / "docs/metrics.md").read_text("utf-8")
    assert [name for name in ["run", *TABLES] if f"\n<!-- {name} -->\n" not in frames] == []
    assert {file.name for file in GOLDEN.iterdir()} == set(FORMS)
