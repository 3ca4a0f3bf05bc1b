"""What may import what, and what a light start leaves out."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Callable, Collection, Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import grimp
import pytest

from tests.unit.source import trees
from tests.unit.views.factories import make_experiment

ROOT = Path(__file__).parents[2]
HEAVY = ("torch", "transformers", "numpy", "reasoning_gym", "pandas", "matplotlib", "scipy", "pyarrow")
REMOTE = ("obstore", "httpx")
QUICK = (*REMOTE, "asyncio", "anyio", "structlog", "watchfiles")

ANYIO = {
    *("abc", "create_memory_object_stream", "create_task_group", "streams", "CancelScope", "CapacityLimiter", "Event"),
    *("Lock", "lowlevel", "BrokenResourceError", "ClosedResourceError", "WouldBlock"),
}
"""What a node uses of anyio outside its process room: nothing that sleeps, watches a clock, or starts a thread."""


def run_python(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    command, environment = [sys.executable, *arguments], {**os.environ, **variables}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


def test_no_files_import_each_other_in_a_circle() -> None:
    graph = grimp.build_graph("swarm", cache_dir=None)
    imported = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    TopologicalSorter(imported).prepare()  # CycleError names one


def test_imports_point_one_way() -> None:
    code = "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports(no_cache=True))"
    done = run_python("-c", code)
    assert "Contracts: 9 kept, 0 broken." in done.stdout, done.stdout + done.stderr
    assert done.returncode == 0


@pytest.mark.parametrize("package", ["node", "planner", "policy"])
def test_the_map_of_a_large_package_names_every_module(package: str) -> None:
    folder = ROOT / "swarm" / package
    named = set(re.findall(r"[a-z0-9_]+", (folder / "__init__.py").read_text()))
    assert {file.stem for file in folder.rglob("*.py")} - named == {"__init__"}


LOOKS = ("--version", "status", "status --json", "logs", "validate", "validate --json", "experiment list")
STARTS: list[tuple[tuple[str, ...], str]] = [
    *((QUICK, f"assert run({words.split()}) == 0") for words in LOOKS),
    (("watchfiles", "structlog"), "import swarm.cli.doctor"),
    (REMOTE, "import swarm.node.coordinator.coordinator, swarm.node.process.daemon"),
    (REMOTE, "import swarm.cli.up, swarm.planner.planner, swarm.cli.plan, swarm.tasks.scoring"),
    (REMOTE, "import services.coordinator, services.worker, services.workers"),
    (REMOTE, "import swarm.views.tables.export, swarm.cli.export"),
    ((), "import swarm.policy.embedded as e; e.embedded_path('tiny-qwen2')"),
    ((), "from swarm.config import Settings; from swarm.planner.planner import plan_for as plan"),
    ((), "assert plan(Settings(model=('tiny-qwen2', 'tiny-2-gpt2'), device='cpu'), 4, 1)"),
    ((), "assert run(['plan', '--device', 'cpu']) == 0"),
]
"""What a start must not import beside HEAVY, and the start: one after the other in one process."""


def test_starting_a_node_or_a_command_imports_nothing_heavy(tmp_path: Path) -> None:
    make_experiment(tmp_path)
    lines = ["import sys", "from swarm.cli.main import run"]
    for light_of, start in STARTS:
        lines += [start, f"found = {{*{(*HEAVY, *light_of)!r}}} & {{*sys.modules}}"]
        lines += [f"if found: sys.exit({start!r} + f': {{found}}')"]
    done = run_python("-c", "\n".join(lines), SWARM_PATH=str(tmp_path), EXPERIMENT_NAME="exp")
    assert (done.returncode, done.stderr) == (0, "")


def names_of_anyio(tree: ast.AST) -> set[str]:
    """What a module uses of anyio: imported by name, or as an attribute of it."""
    found: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.ImportFrom(module="anyio", names=names):
                found |= {name.name for name in names}
            case ast.ImportFrom(module=str(module)) if module.startswith("anyio."):
                found.add(module.split(".")[1])
            case ast.Import(names=names):
                found |= {"an alias of anyio" for name in names if name.name.startswith("anyio") and name.asname}
            case ast.Attribute(value=ast.Name(id="anyio"), attr=name):
                found.add(name)
    return found


def calls_open(tree: ast.AST) -> bool:
    calls = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return any(isinstance(called, ast.Name) and called.id in ("open", "input", "print") for called in calls)


@pytest.mark.parametrize("room", ["base", "sharing", "worker", "coordinator"])
def test_a_node_neither_sleeps_nor_starts_threads_nor_opens_files_by_itself(room: str) -> None:
    for file in sorted((ROOT / "swarm" / "node" / room).glob("*.py")):
        tree = trees()[file.relative_to(ROOT).as_posix()]
        assert names_of_anyio(tree) <= ANYIO, file
        assert not calls_open(tree) or file.name == "checkpoints.py", file  # which writes into a bundle's local folder


WRITERS = {
    *("write_text", "write_bytes", "save_file", "mkdir", "makedirs", "rmtree", "copyfile", "copyfileobj", "copytree"),
}
"""Calls that make, change or remove files, beside `open`; those that read them have a row in doors.md each."""
NOT_BELOW_THE_SHARED_PLACE = {
    "swarm/cli/main.py": "/dev/null",
    "swarm/cli/model_export.py": "the folder that the user names",
    "swarm/cli/processes.py": "the user's private runtime folder",
    "swarm/cli/say.py": "/dev/null",
    "swarm/cli/task.py": "the file that the user names",
    "swarm/node/process/generator_only.py": "a checkpoint, in a folder that it is given",
    "swarm/node/worker/checkpoints.py": "the local folder of a bundle that the store has opened or takes over",
    "swarm/planner/footprint.py": "the user's cache",
    "swarm/plugins/lab/warmup/build.py": "the folder that the user names",
    "swarm/plugins/lab/warmup/specialists.py": "the folder that the user names",
    "swarm/plugins/notebook/background.py": "the output of a command, in the working folder",
    "swarm/plugins/sinks/wandb.py": "the user's folder of sinks",
    "swarm/plugins/slurm/backend.py": "the user's private folder of jobs",
    "swarm/plugins/slurm/job.py": "the user's private folder of jobs",
    "swarm/plugins/syncthing/setting_up.py": "the folder that the user names",
    "swarm/plugins/webdav/place.py": "a copy of its own",
    "swarm/policy/leased.py": "a private folder of this machine",
    "swarm/policy/model_files.py": "the model folder that the user names",
    "swarm/policy/snapshot.py": "the local folder of a bundle that the store has opened or takes over; the user's own",
    "swarm/records/task_files.py": "a cache of the user's own datasets",
    "swarm/signing/keys.py": "the user's private folder",
    "swarm/signing/known_keys.py": "the user's private folder",
    "swarm/tasks/bounded.py": "/proc",
    "swarm/tasks/dataset/reading.py": "a temporary file without a name",
    "swarm/tasks/scoring_server.py": "its own descriptors, /dev/null",
    "swarm/views/plot.py": "the file that the user names",
}
"""Modules outside swarm.store that write files by themselves -> what they write."""


def writes(tree: ast.AST) -> list[str]:
    """Names of the calls in a module that make, change or remove files."""
    found = [name for name, _ in _calls(tree, WRITERS)]
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(attr="open", value=ast.Name(id="os"))):
                found.append("os.open")
            case ast.Call(func=ast.Name(id="open") | ast.Attribute(attr="open"), args=args, keywords=named):
                modes = [ast.unparse(each) for each in (*args, *(one.value for one in named if one.arg == "mode"))]
                found += [mode for mode in modes if re.fullmatch(r"'[rwxabt+]*[wxa+][rwxabt+]*'", mode)]
    return found


def _calls(tree: ast.AST, names: Collection[str]) -> Iterator[tuple[str, str]]:
    """Calls of these names in a module: name, and what it is called on."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name(id=name)) if name in names:
                yield name, ""
            case ast.Call(func=ast.Attribute(attr=name, value=on)) if name in names:
                yield name, ast.unparse(on)


def test_what_lies_below_the_shared_place_is_written_by_the_store_alone() -> None:
    """Who writes a file elsewhere says here which; only the store knows links, pipes and full disks."""
    outside = {name for name, tree in trees().items() if writes(tree) and not name.startswith("swarm/store/")}
    assert outside - NOT_BELOW_THE_SHARED_PLACE.keys() == set(), "write it through the store"
    assert NOT_BELOW_THE_SHARED_PLACE.keys() - outside == set(), "these write nothing any more"


def test_forms_are_decoded_in_one_place_since_two_threads_must_not_make_a_decoder_at_once() -> None:
    files = {file for folder in ("swarm", "services") for file in (ROOT / folder).rglob("*.py")}
    typed = re.compile(r"msgspec\.json\.Decoder\(|msgspec\.json\.decode\([^\n]*type=")
    assert {file.relative_to(ROOT).as_posix() for file in files if typed.search(file.read_text())} == {"swarm/forms.py"}


RUNNERS = {"import_module", "__import__", "find_spec", "exec", "run_module", "run_path", "exec_module"}
"""Calls that run what their argument names, or the packages above it."""
ALONE = {"eval", "compile"}
"""Which do so where they are no methods."""
UNPICKLERS = {("pickle", "loads"), ("pickle", "load"), ("torch", "load"), ("joblib", "load"), ("marshal", "loads")}
WHERE_NAMES_COME_FROM = {
    "swarm/cli/fork_server.py": "what workers import, named there",
    "swarm/cli/supervisor.py": "the libraries of the page, named there",
    "swarm/entry_points.py": "our own plugin, for the modules that forward to it",
    "swarm/config/own_code.py": "OwnCode, which only this user can say",
    "swarm/plugins/sinks/opening.py": "SINKS",
    "swarm/plugins/study/cli/studies.py": "the libraries of an extra, named there",
    "swarm/systems.py": "modules of the standard library, named there",
    "swarm/tasks/dataset/loading.py": "SCORERS",
    "swarm/tasks/dataset/scorers/unit_tests.py": "an answer, or a row's tests, behind all bars; NAMES",
    "swarm/tasks/gym/imports.py": "modules of reasoning-gym and sympy, found in their own files",
    "swarm/tasks/gym/names.py": "reasoning-gym",
    "swarm/tasks/python/questions.py": "a file that OwnCode names, at the SHA-256 of the user's own run",
    "swarm/tasks/registry.py": "FAMILIES",
    "swarm/tasks/sandbox.py": "MODULES",
    "swarm/plugins/verifiers/environment.py": "the library verifiers, which imports what OwnCode names",
}
"""Modules that import or run what a text names -> where that text comes from. None of them reads a place."""


def runs(tree: ast.AST) -> list[str]:
    """Names of the calls in a module that import or run what their argument names."""
    named = _calls(tree, RUNNERS | ALONE | {name for _, name in UNPICKLERS})
    return [name for name, on in named if name in RUNNERS or (name in ALONE and not on) or (on, name) in UNPICKLERS]


def test_what_a_text_names_is_run_in_the_listed_modules_alone() -> None:
    """Whoever imports by a name says here where the name comes from; what the user may name goes by own_code.load."""
    running = {name for name, tree in trees().items() if runs(tree)}
    assert running - WHERE_NAMES_COME_FROM.keys() == set(), "look it up, or import it by swarm.config.own_code"
    assert WHERE_NAMES_COME_FROM.keys() - running == set(), "these import nothing by a name any more"


CODE: dict[Callable[[ast.AST], Collection[str]], tuple[str, ...]] = {
    lambda tree: names_of_anyio(tree) - ANYIO: (
        *("from anyio import to_thread", "import anyio.to_thread\nanyio.to_thread.run_sync"),
        *("import anyio\nanyio.sleep(1)", "from anyio import sleep as rest"),
        *("import anyio as x\nx.sleep(1)", "from anyio.to_thread import run_sync"),
    ),
    writes: (
        *("open(f, 'w')", "open(f, mode='ab')", "f.open('r+b')", "os.open(f, 0)", "Path(f).write_text('')"),
        *("import shutil; shutil.rmtree(f)", "save_file(f)"),
    ),
    runs: (
        *("import_module(name)", "importlib.import_module(name)", "__import__(name)", "exec(text)"),
        *("importlib.util.find_spec(name)", "runpy.run_path(name)", "pickle.loads(data)", "torch.load(file)"),
    ),
}


@pytest.mark.parametrize(("found", "code"), [(found, code) for found, codes in CODE.items() for code in codes])
def test_what_is_looked_for_is_found_however_it_is_written(
    found: Callable[[ast.AST], Collection[str]], code: str
) -> None:
    assert found(ast.parse(code))


def test_reasoning_gym_is_imported_in_its_own_package_alone() -> None:
    importing = {
        Path(name).parent.name
        for name, tree in trees().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom) and "reasoning_gym" in ast.unparse(node)
    }
    assert importing == {"gym"}
