"""doors.md, beside this file, names every function by which bytes come in, and the test that holds its bound."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

import pytest

from tests.unit.named_tests import is_there, named_in
from tests.unit.source import trees

PAGE = Path(__file__).with_name("doors.md")
OF_A_STORE = {
    *("get", "list", "open_bundle", "get_to_file", "read_records"),
    *("get_range", "head", "download", "pages"),
}
"""Verbs of a store, or of a client of a bucket, by which bytes and names come."""
OF_ANYTHING = {
    *("read_bytes", "read_text", "iterdir", "glob", "rglob", "getresponse", "from_pretrained", "recv", "recv_into"),
    *("recvfrom", "recvmsg", "accept", "makefile", "create_connection", "open_connection", "connect_tcp", "fdopen"),
    *("safe_open", "load_file", "snapshot_download", "hf_hub_download", "load_dataset", "urlopen", "build_opener"),
    *("open_regular", "H11Protocol", "create_server", "ParquetFile", "fromstring", "extractall", "from_url", "OpenAI"),
    *(
        *("aiter_raw", "iter_raw", "aiter_bytes", "model_info", "list_repo_files", "create_repo", "GzipFile"),
        *("ZipFile", "TarFile"),
    ),
    *("mmap", "memmap", "fromfile", "read_parquet", "copyfile", "copytree", "open_process", "run_process"),
    *("check_output", "open_code", "FileIO", "input", "get_many"),
}
OF_MODULES = {
    "os": {"read", "pread", "preadv", "readv", "scandir", "listdir", "walk", "readlink", "getxattr", "listxattr"},
    "obstore": {"get", "get_range", "list", "head"},
    **{name: {"open"} for name in ("io", "gzip", "bz2", "lzma", "tarfile", "codecs", "tokenize")},
    **{name: {"load", "open"} for name in ("np", "numpy", "torch", "pickle", "shelve")},
    **{name: {"read", "readline", "readlines"} for name in ("buffer", "stdin", "rfile")},
}
TO_WRITE = re.compile(r"'[wxa][bt]?'")


def _named(node: ast.AST) -> str:
    """The last name of an expression: `store` of `self.store`, of `place.store(x)` and of `store[0]`."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case ast.Call(func=inner) | ast.Subscript(value=inner) | ast.NamedExpr(value=inner):
            return _named(inner)
    return ""


def _is_read_store(form: ast.ClassDef) -> bool:
    """A store, or a client of a bucket: what gives a file of at most so many bytes."""
    return any(
        isinstance(each, ast.FunctionDef) and each.name == "get" and "limit" in {one.arg for one in each.args.args}
        for each in form.body
    )


def stores_in(trees: Mapping[str, ast.Module]) -> dict[str, set[str]]:
    """By module, what a store is called there: what is declared as one, or made as one, and what gives one. Fields and
    functions go by one name everywhere, variables in their module alone."""
    nodes = {name: [*ast.walk(tree)] for name, tree in trees.items()}
    forms = {
        node.name for each in nodes.values() for node in each if isinstance(node, ast.ClassDef) and _is_read_store(node)
    }

    def is_one(annotation: ast.expr | None) -> bool:
        if annotation is None or isinstance(annotation, ast.Name):
            return annotation is not None and annotation.id in forms
        text = ast.unparse(annotation).strip("\"'")
        return text.removesuffix(" | None").rpartition(".")[2] in forms

    found, public = {name: set(forms) for name in trees}, set[str]()
    for name, each in nodes.items():
        for node in each:
            match node:
                case ast.arg(arg=said, annotation=annotation) if is_one(annotation):
                    found[name].add(said)
                case ast.AnnAssign(target=target, annotation=annotation) if is_one(annotation):
                    public.add(_named(target))
                case ast.FunctionDef(name=said, returns=returns) if is_one(returns):
                    public.add(said)
    given = {
        name: [(isinstance(one, ast.Attribute), _named(one), _named(value)) for one, value in _given_names(each)]
        for name, each in nodes.items()
    }
    before = -1
    while before < (before := len(public) + sum(map(len, found.values()))):
        for name, pairs in given.items():
            for is_field, other, value in pairs:
                if other and (value in found[name] or value in public):
                    (public if is_field else found[name]).add(other)
    return {name: names | public for name, names in found.items()}


def _given_names(nodes: Iterable[ast.AST]) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Names, and what they are given."""
    for node in nodes:
        if isinstance(node, ast.NamedExpr):
            yield node.target, node.value
        elif isinstance(node, ast.withitem) and node.optional_vars:
            yield node.optional_vars, node.context_expr
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                    yield from zip(target.elts, node.value.elts, strict=False)
                else:
                    yield target, node.value


def _mode(args: Sequence[ast.expr], named: Sequence[ast.keyword]) -> str:
    """How something is opened."""
    modes = [*args[:1], *(each.value for each in named if each.arg == "mode")]
    return ast.unparse(modes[0]) if modes else ""


def _reads(node: ast.AST, stores: set[str]) -> bool:
    """Whether something takes bytes, or names, from outside the process, or is handed on to do so."""
    if not isinstance(node, ast.Call | ast.Attribute):
        return isinstance(node, ast.Name) and node.id in OF_ANYTHING and isinstance(node.ctx, ast.Load)
    match node:
        case ast.Call(func=ast.Attribute(attr="open", value=of)) if _named(of) in OF_MODULES:
            return "open" in OF_MODULES[_named(of)]
        case ast.Call(func=ast.Attribute(attr="open"), args=args, keywords=named):  # of a path, or of a place
            mode = _mode(args, named)
            return not mode or bool(re.match("'[rwxa]", mode) and not TO_WRITE.fullmatch(mode))
        case ast.Call(func=ast.Name(id="open"), args=args, keywords=named):
            return not TO_WRITE.fullmatch(_mode(args[1:], named))
        case ast.Call(keywords=named) if any(
            each.arg == "capture_output" or (each.arg == "stdout" and ast.unparse(each.value).endswith("PIPE"))
            for each in named
        ):
            return True
        case ast.Attribute(attr=verb, value=of, ctx=ast.Load()):
            receiver = _named(of)
            if receiver in OF_MODULES and verb in OF_MODULES[receiver]:
                return True
            return verb in OF_ANYTHING or (verb in OF_A_STORE and receiver in stores)
    return False


def doors_in(tree: ast.Module, stores: set[str]) -> set[str]:
    """The names of the functions and classes of a module that read."""
    found = set[str]()

    def visit(node: ast.AST, name: str) -> None:
        for child in ast.iter_child_nodes(node):
            within = child.name if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef) else name
            if isinstance(child, ast.ClassDef) and any(ast.unparse(base) in OF_ANYTHING for base in child.bases):
                found.add(child.name)
            elif _reads(child, stores) and (within != "module" or isinstance(node, ast.Call)):
                found.add(within)
            visit(child, within)

    visit(tree, "module")
    return found


@cache
def in_code() -> frozenset[str]:
    """`module.py: function` of all of them, below `swarm/`."""
    ours = {name.removeprefix("swarm/"): tree for name, tree in trees().items() if name.startswith("swarm/")}
    stores = stores_in(ours)
    return frozenset(f"{name}: {door}" for name, tree in ours.items() for door in doors_in(tree, stores[name]))


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
    assert sorted(in_code() - {*named}) == [], "a new door: add a row to doors.md, with its bound and its test"
    assert sorted({*named} - in_code()) == [], "no door any more: remove it from doors.md"
    assert len(named) == len({*named})


def test_every_row_names_a_test_that_is_there() -> None:
    for row in rows():
        assert (named := named_in(row[-1])), row[0]
        assert [test for test in named if not is_there(test)] == [], row[0]


def test_every_row_of_a_stranger_has_bounds_and_a_test() -> None:
    text = PAGE.read_text("utf-8").partition("## What is this machine's own")[0]
    for line in text.splitlines():
        if line.startswith("| `"):
            cells = [cell.strip() for cell in line.strip("|").split(" | ")]
            assert len(cells) == 5, line
            assert all(cells), line


STORE = "class Store:\n def get(self, key: str, limit: int) -> bytes: ...\n"


@pytest.mark.parametrize(
    "reading",
    [
        "def f(anything: Store):\n return anything.get(k, 9)",
        "def f(anything: Store | None):\n return anything.list(k)",
        "class Held:\n it: Store\ndef f(held):\n return held.it.get(k, 9)",
        "def opened() -> Store: ...\ndef f():\n return opened().get(k, 9)",
        "def opened() -> Store: ...\ndef f():\n with opened() as given:\n  return given.get(k, 9)",
        "def f(one: Store):\n other = one\n return other.get(k, 9)",
        *("def f(one: Store):\n return later(one.get, k, 9)", "def f(p):\n with open(p) as g: return g.read()"),
        *("def f(p):\n return open(p, mode='rb').read()", "def f(p):\n return open(p, 'ab+').read()"),
        *("def f(p):\n return p.open().read()", "def f(p):\n return p.open('rb').read()"),
        *("def f(p):\n return io.open(p).read()", "def f(p):\n return gzip.open(p, 'rb').read()"),
        *("def f(p):\n return os.fdopen(p).read()", "def f(p):\n return mmap.mmap(p, 0)"),
        *("def f(p):\n return np.load(p)", "def f(p):\n return zipfile.ZipFile(p).namelist()"),
        *("def f(p):\n return tarfile.open(p)", "def f(p):\n return map(Path.read_text, p)"),
        *("def f(p):\n return p.recv(9)", "async def f(p):\n return await asyncio.open_connection(p)"),
        "async def f(p):\n return await anyio.open_process(p)",
        "def f(p):\n return subprocess.run(p, capture_output=True)",
        *("def f(p):\n return subprocess.Popen(p, stdout=subprocess.PIPE)", "def f(p):\n return obstore.get(p, k)"),
    ],
)
def test_a_new_door_is_seen_whatever_it_is_called(reading: str) -> None:
    tree = ast.parse(STORE + reading)
    assert doors_in(tree, stores_in({"module": tree})["module"]) == {"f"}


@pytest.mark.parametrize(
    "other",
    [
        "def f(d):\n    return d.get('a', 0)",
        "def f(p):\n    with open(p, 'xb') as g: g.write(b'')",
        "def f(place):\n    return place.open(name, writer='w')",
        "def f(p):\n return subprocess.run(p, stdout=subprocess.DEVNULL)",
    ],
)
def test_what_reads_nothing_is_no_door(other: str) -> None:
    assert doors_in(ast.parse(other), {"Store"}) == set()


def test_a_protocol_of_a_connection_is_a_door() -> None:
    assert doors_in(ast.parse("class P(H11Protocol): pass"), set()) == {"P"}
