"""docs/doors.md names every place in the code at which bytes come in, and the test that holds its bound."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "doors.md"
STORES = {
    *("store", "_store", "inner", "_inner", "source", "_source", "target", "_target", "archive", "_archive"),
    *("client", "_client", "there", "here", "private"),
}
"""What a store, or a client of a bucket, is called."""
OF_A_STORE = {"open_bundle", "get_many", "get_to_file", "read_records"}
SHARED_WITH_OTHERS = {"get", "list"}
"""Verbs of a store that mappings and others have as well."""
OF_ANYTHING = {
    *("read_bytes", "read_text", "iterdir", "glob", "rglob", "getresponse", "from_pretrained", "recv", "recv_into"),
    *("safe_open", "load_file", "snapshot_download", "load_dataset", "urlopen", "GzipFile"),
    *("open_regular", "H11Protocol", "create_server", "ParquetFile", "fromstring", "extractall", "from_url", "OpenAI"),
    *("aiter_raw", "model_info", "create_repo"),
}
OF_THE_SYSTEM = {"read", "pread", "scandir", "listdir", "readlink", "getxattr"}
"""Of `os`."""
BOUND = re.compile(r"LARGEST|SMALL_FILE|LONGEST_(?!TEXT)|limit\b")


def _reads(call: ast.Call) -> bool:
    """Whether a call takes bytes, or names, from outside the process."""
    match call.func:
        case ast.Name(id="open"):
            mode = ast.unparse(call.args[1]) if len(call.args) > 1 else ""
            return not mode.startswith(("'w", "'x", "'a"))
        case ast.Name(id=name):
            return name in OF_ANYTHING
        case ast.Attribute(attr=verb, value=of):
            receiver = ast.unparse(of).partition("(")[0].rpartition(".")[2]
            second = ast.unparse(call.args[1]) if len(call.args) > 1 else ""
            if verb in SHARED_WITH_OTHERS:
                return receiver in STORES or (verb == "get" and bool(BOUND.search(second)))
            if receiver in ("buffer", "stdin", "rfile"):
                return verb in ("read", "readline")
            if verb == "open":  # of a path
                return bool(call.args) and ast.unparse(call.args[0]).startswith("'r")
            return verb in OF_A_STORE | OF_ANYTHING or (receiver == "os" and verb in OF_THE_SYSTEM)
    return False


def doors_in(source: str) -> set[str]:
    """The names of the functions and classes of a module that read."""
    found = set[str]()

    def visit(node: ast.AST, name: str) -> None:
        for child in ast.iter_child_nodes(node):
            within = child.name if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef) else name
            if isinstance(child, ast.ClassDef) and any(ast.unparse(base) in OF_ANYTHING for base in child.bases):
                found.add(child.name)
            if isinstance(child, ast.Call) and _reads(child):
                found.add(within)
            visit(child, within)

    visit(ast.parse(source), "module")
    return found


def in_code() -> set[str]:
    """`module.py: function` of all of them, below `swarm/`."""
    root = ROOT / "swarm"
    return {
        f"{file.relative_to(root).as_posix()}: {name}"
        for file in root.rglob("*.py")
        for name in doors_in(file.read_text("utf-8"))
    }


def rows() -> Iterator[list[str]]:
    for line in PAGE.read_text("utf-8").splitlines():
        if line.startswith("| `"):
            yield [cell.strip() for cell in line.strip("|").split(" | ")]


def in_table() -> list[str]:
    found = list[str]()
    for row in rows():
        module, _, names = row[0].strip("` ").partition(": ")
        found += [f"{module}: {name}" for name in names.split(", ")]
    return found


def test_every_door_in_the_code_has_a_row_and_every_row_a_door() -> None:
    named = in_table()
    assert sorted(in_code() - {*named}) == [], "a new door: add a row to docs/doors.md, with its bound and its test"
    assert sorted({*named} - in_code()) == [], "no door any more: remove it from docs/doors.md"
    assert len(named) == len({*named})


def test_every_row_names_a_test_that_is_there() -> None:
    files = {path.relative_to(ROOT / "tests").as_posix(): path for path in (ROOT / "tests").rglob("*.py")}
    for row in rows():
        for name in re.findall(r"`(\S+\.py)`", row[-1]):
            assert any(f"/{file}".endswith(f"/{name}") for file in files), (row[0], name)


def test_every_row_of_a_stranger_has_bounds_and_a_test() -> None:
    text = PAGE.read_text("utf-8").partition("## What is this machine's own")[0]
    for line in text.splitlines():
        if line.startswith("| `"):
            cells = [cell.strip() for cell in line.strip("|").split(" | ")]
            assert len(cells) == 5, line
            assert all(cells), line
            assert re.search(r"`\S+\.py`", cells[4]), line


def test_a_new_door_is_seen() -> None:
    assert doors_in("def f(store, k):\n    return store.get(k, 9)") == {"f"}
    assert doors_in("def f(run, k):\n    return run.bucket.get(k, LARGEST)") == {"f"}
    assert doors_in("def f(p):\n    with open(p) as g: return g.read()") == {"f"}
    assert doors_in("class P(H11Protocol): pass") == {"P"}
    assert doors_in("def f(d):\n    return d.get('a', 0)") == set()
