"""What the pages of docs say of a study is what its committed per-seed tables come to."""

from __future__ import annotations

import pytest

pytest.importorskip("matplotlib")
pytest.importorskip("scipy")

from tests.plugins.study.report.published import DOCS, PUBLISHED, fields, said

STUDIES = sorted({one.study for one in PUBLISHED})


@pytest.mark.parametrize("study", STUDIES)
def test_the_pages_say_what_the_committed_tables_come_to(study: str) -> None:
    for one in PUBLISHED:
        if one.study == study:
            page = " ".join((DOCS / one.page).read_text("utf-8").split())
            assert said(one) in page, f"docs/{one.page} does not say: {said(one)}"


def test_twenty_numbers_and_more_are_held() -> None:
    assert sum(map(fields, PUBLISHED)) >= 20
