"""Which changes make a run another one, and which do not."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import swarm
from swarm.config import Settings
from swarm.config.own_code import OwnCode
from swarm.provenance import JUDGE_PARTS, PARTS, code_digest, model_digests, own_modules, own_plugins

LEFT_OUT = {
    *("__init__.py", "__main__.py", "cli", "views", "logs", "harmless.py", "provenance.py", "study.py"),
    *("notebook.py", "entry_points.py", "plugins", "assets", "web", "systems.py", "extras.py"),
    *("programs.py", "spelling.py"),
}
"""Of no influence on what a run computes."""


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A package with one file for each part of ours, and for each that is left out."""
    root = tmp_path / "swarm"
    for part in (*PARTS, *JUDGE_PARTS, *LEFT_OUT):
        file = root / part if part.endswith(".py") else root / part / "deep" / "inside.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("x = 1\n")
    return root


def sources(package: Path) -> Iterator[tuple[str, Path]]:
    for file in sorted(package.rglob("*.py")):
        yield file.relative_to(package).parts[0], file


def test_every_part_of_the_package_either_counts_or_is_left_out_on_purpose() -> None:
    root = Path(swarm.__file__).parent
    parts = {entry.name for entry in root.iterdir() if entry.suffix == ".py" or entry.is_dir()} - {"__pycache__"}
    assert parts == {*PARTS, *JUDGE_PARTS, *LEFT_OUT}


def test_a_change_counts_exactly_where_it_can_change_a_run(package: Path) -> None:
    before = {judged: code_digest(judged=judged, package=package) for judged in (False, True)}
    for part, file in list(sources(package)):
        file.write_text("x = 2\n")
        changed = {judged: code_digest(judged=judged, package=package) != before[judged] for judged in before}
        assert changed == {False: part in PARTS, True: part in (*PARTS, *JUDGE_PARTS)}, part
        file.write_text("x = 1\n")
    assert code_digest(judged=False, package=package) == before[False]


def test_a_file_more_or_under_another_name_counts(package: Path) -> None:
    before = code_digest(judged=False, package=package)
    file = package / "algo" / "deep" / "inside.py"
    file.rename(file.with_name("other.py"))
    assert code_digest(judged=False, package=package) != before
    file.write_text("x = 1\n")
    assert code_digest(judged=False, package=package) != before


def test_a_plugin_that_takes_part_counts_and_no_other(package: Path) -> None:
    asked, other = (package / "plugins" / name / "family.py" for name in ("sums", "other"))
    for file in (asked, other):
        file.parent.mkdir()
        file.write_text("x = 1\n")
    before = code_digest(judged=False, plugins=("sums",), package=package)
    assert before != code_digest(judged=False, package=package)
    other.write_text("x = 2\n")
    assert code_digest(judged=False, plugins=("sums",), package=package) == before
    asked.write_text("x = 2\n")
    assert code_digest(judged=False, plugins=("sums",), package=package) != before


def test_a_function_of_the_user_s_own_counts_by_its_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    module = tmp_path / "my_own_rule.py"
    module.write_text("def rule(): ...\n")
    settings = Settings(adaptive_rule=OwnCode("my_own_rule:rule"))
    before = code_digest(own_modules(settings), judged=False)
    assert before
    module.write_text("def rule(): return 1\n")
    assert code_digest(own_modules(settings), judged=False) not in ("", before)
    assert "my_own_rule" not in sys.modules, "it was imported to be looked at"


def test_code_that_nobody_can_read_has_no_digest() -> None:
    assert code_digest(frozenset({OwnCode("no_such_module")}), judged=False) == ""


def test_a_model_counts_by_its_content_and_one_of_the_hub_by_its_name_alone(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "weights").write_bytes(b"1")
    names = [str(folder), "tiny-qwen2", "Qwen/Qwen2.5-0.5B"]
    before = model_digests(names)
    assert before.keys() == {str(folder), "tiny-qwen2"}
    (folder / "weights").write_bytes(b"2!")
    after = model_digests(names)
    assert [after[name] != before[name] for name in before] == [True, False]


def test_a_plugin_takes_part_where_it_joins_in() -> None:
    on, off = (Settings().with_values({"average_every": every}) for every in (2, 0))
    assert (own_plugins(on), own_plugins(off)) == (("lab",), ())
    assert own_plugins(Settings().with_values({"sinks": ("trackio",)})) == ()
