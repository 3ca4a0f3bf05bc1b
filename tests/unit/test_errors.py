"""The error tree is the one that its docstring assigned."""

from __future__ import annotations

import re

import pytest

from swarm import errors
from swarm.errors import SwarmError
from tests.generate import ROOT, error_tree

DRAWN = re.findall(r"[├└]── (\w+) +(.*?) +(?:exit (\d)|never fatal)$", errors.__doc__ or "", re.MULTILINE)


def test_the_docstring_draws_every_error() -> None:
    classes = {name for name, thing in vars(errors).items() if isinstance(thing, type)}
    assert {name for name, _, _ in DRAWN} | {"SwarmError"} == classes


def test_each_error_derives_from_the_one_that_it_is_drawn_below() -> None:
    branches = re.findall(r"^    ((?:│   |    )*)[├└]── (\w+)", errors.__doc__ or "", re.MULTILINE)
    above = ["SwarmError"]
    for indent, name in branches:
        del above[1 + len(indent) // 4 :]
        assert getattr(errors, name).__base__ is getattr(errors, above[-1])
        above.append(name)


@pytest.mark.parametrize(("name", "code"), [(name, code) for name, _, code in DRAWN if code])
def test_errors_end_a_process_with_the_exit_code_that_is_drawn(name: str, code: str) -> None:
    error = getattr(errors, name)
    assert issubclass(error, SwarmError)
    assert error.exit_code == int(code)


PAGE = (ROOT / "docs/errors.md").read_text("utf-8")


def test_every_error_has_a_code_of_its_own() -> None:
    codes = [kind.code for kind in error_tree()]
    assert len(set(codes)) == len(codes)
    assert all(re.fullmatch(r"SWARM-[A-Z-]+", code) for code in codes)


@pytest.mark.parametrize("kind", error_tree(), ids=lambda kind: kind.code)
def test_every_code_is_explained_with_its_cause_and_remedy(kind: type[SwarmError]) -> None:
    (section,) = re.findall(rf"^### {kind.code}\n(.*?)(?=^##|\Z)", PAGE, re.MULTILINE | re.DOTALL)
    assert "**Cause.**" in section
    assert "**Remedy.**" in section


def test_the_page_explains_no_code_that_there_is_not() -> None:
    assert set(re.findall(r"SWARM-[A-Z-]+[A-Z]", PAGE)) == {kind.code for kind in error_tree()}
