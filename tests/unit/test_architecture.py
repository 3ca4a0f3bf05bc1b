"""What may import what, and what a light start leaves out."""

from __future__ import annotations

import ast
import copy
import os
import re
import subprocess
import sys
from collections.abc import Collection, Iterator
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
    graph = grimp.build_graph("swarm", cache_dir=None, exclude_type_checking_imports=True)
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


@pytest.mark.parametrize(
    "code",
    [
        *("from anyio import to_thread", "import anyio.to_thread\nanyio.to_thread.run_sync"),
        *("import anyio\nanyio.sleep(1)", "from anyio import sleep as rest"),
        *("import anyio as x\nx.sleep(1)", "from anyio.to_thread import run_sync"),
    ],
)
def test_what_a_node_must_not_use_is_found_however_it_is_written(code: str) -> None:
    assert not names_of_anyio(ast.parse(code)) <= ANYIO


OPENERS = {
    *("open", "fdopen", "read_text", "read_bytes", "write_text", "write_bytes", "scandir", "listdir", "iterdir"),
    *("glob", "rglob", "load_file", "save_file", "rmtree", "copyfile", "copyfileobj", "mkdir", "makedirs"),
}
NOT_BELOW_THE_SHARED_PLACE = {
    "swarm/cli/fork_server.py": "/proc",
    "swarm/cli/main.py": "/dev/null",
    "swarm/cli/model_export.py": "the folder that the user names, a checkpoint that the store has opened",
    "swarm/cli/processes.py": "the user's private runtime folder",
    "swarm/cli/say.py": "/dev/null",
    "swarm/cli/task.py": "the file that the user names",
    "swarm/config/declared.py": "the package's own source",
    "swarm/config/sources.py": "the settings file that the user names",
    "swarm/entry_points.py": "names in this package",
    "swarm/node/process/host.py": "/proc",
    "swarm/policy/leased.py": "a private folder of this machine",
    "swarm/node/worker/checkpoints.py": "the local folder of a bundle that the store has opened or takes over",
    "swarm/plugins/sinks/tensorboard.py": "the user's folder of sinks",
    "swarm/plugins/sinks/wandb.py": "the user's folder of sinks",
    "swarm/plugins/webdav/place.py": "a local file to send, and a copy of its own",
    "swarm/plugins/syncthing/membership.py": "this machine's own record of members",
    "swarm/plugins/syncthing/setting_up.py": "the folder that the user names",
    "swarm/plugins/slurm/backend.py": "the user's private folder of jobs",
    "swarm/plugins/slurm/job.py": "the user's private folder of jobs",
    "swarm/planner/footprint.py": "the package's own table, the user's cache",
    "swarm/planner/free_memory.py": "/proc and /sys",
    "swarm/plugins/hub/hub_push.py": "a folder that the command has just written",
    "swarm/policy/model_files.py": "the model folder that the user names",
    "swarm/policy/peft_form.py": "the model folder that the user names",
    "swarm/policy/snapshot.py": "the local folder of a bundle that the store has opened or takes over; the user's own",
    "swarm/provenance.py": "the package's own source, the models, /proc",
    "swarm/records/copying.py": "the local folders of a bundle that the stores have opened or take over",
    "swarm/signing/keys.py": "the user's private folder",
    "swarm/signing/known_keys.py": "the user's private folder",
    "swarm/web/assets.py": "the package's own page",
    "swarm/plugins/study/run/matrix_file.py": "the matrix file that the user names",
    "swarm/plugins/notebook/background.py": "the output of a command, in the working folder",
    "swarm/plugins/notebook/live.py": "the output of a command, in the working folder",
    "swarm/node/process/generator_only.py": "a checkpoint, in a folder that it is given",
    "swarm/records/task_files.py": "datasets of the user's own, and a cache of them",
    "swarm/tasks/bounded.py": "/proc",
    "swarm/tasks/definitions.py": "a dataset of the user's own",
    "swarm/tasks/dataset/parquet.py": "a dataset of the user's own",
    "swarm/tasks/dataset/files.py": "the dataset that the user names",
    "swarm/tasks/dataset/reading.py": "the dataset that the user names, a temporary file without a name",
    "swarm/tasks/dataset/scorers/custom.py": "the module that the user names",
    "swarm/tasks/gym/imports.py": "sympy's source",
    "swarm/tasks/gym/names.py": "reasoning-gym's source",
    "swarm/tasks/python/questions.py": "the Python file that the user names",
    "swarm/tasks/scoring_server.py": "its own descriptors, /dev/null",
    "swarm/plugins/verifiers/__main__.py": "its own descriptors",
    "swarm/plugins/verifiers/rows.py": "the environment's source",
    "swarm/views/plot.py": "the file that the user names",
    "swarm/plugins/lab/warmup/build.py": "the folder that the user names",
    "swarm/plugins/lab/warmup/specialists.py": "the folder that the user names",
}
"""Modules outside swarm.store that open files by themselves -> what they open."""


def opens(tree: ast.AST) -> list[str]:
    """Names of the calls in a module that open, list, make or remove files, but those of a place or store."""
    found = [(name, on) for name, on in _calls(tree, OPENERS) if on not in ("place", "shared")]
    return [name for name, on in found if "open_place(" not in on]


def _calls(tree: ast.AST, names: Collection[str]) -> Iterator[tuple[str, str]]:
    """Calls of these names in a module: name, and what it is called on."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name(id=name)) if name in names:
                yield name, ""
            case ast.Call(func=ast.Attribute(attr=name, value=on)) if name in names:
                yield name, ast.unparse(on)


def test_what_lies_below_the_shared_place_is_opened_by_the_store_alone() -> None:
    """Who opens a file elsewhere says here which; only the store knows links, pipes and terabytes."""
    opening = {name for name, tree in trees().items() if opens(tree)}
    outside = {name for name in opening if not name.startswith("swarm/store/")}
    assert outside - NOT_BELOW_THE_SHARED_PLACE.keys() == set(), "open it through the store"
    assert NOT_BELOW_THE_SHARED_PLACE.keys() - outside == set(), "these open nothing any more"


@pytest.mark.parametrize(
    "code",
    [
        *("open(f)", "Path(f).read_text()", "os.open(f, 0)", "import shutil; shutil.rmtree(f)"),
        *("load_file(f)", "f.open('rb')"),
    ],
)
def test_a_direct_open_is_found_however_it_is_written(code: str) -> None:
    assert opens(ast.parse(code))


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


@pytest.mark.parametrize(
    "code",
    [
        *("import_module(name)", "importlib.import_module(name)", "__import__(name)", "exec(text)"),
        *("importlib.util.find_spec(name)", "runpy.run_path(name)", "pickle.loads(data)", "torch.load(file)"),
    ],
)
def test_a_run_by_name_is_found_however_it_is_written(code: str) -> None:
    assert runs(ast.parse(code))


# ── one library's name ──────────────────────────────────────────────────────────────────────────────────────────────
GYM = re.compile(r"reasoning.gym|gym", re.IGNORECASE)
NAMES_OF_GYM = {
    "swarm/types.py": 2,
    "swarm/tasks/definitions.py": 1,
    "swarm/tasks/registry.py": 2,
    "swarm/tasks/dataset/scorers/math_text.py": 3,
    "swarm/cli/task.py": 1,
}
"""How often: names on the wire and in settings files, the registration, what it knows of sympy, and its own list."""


def without_documentation(tree: ast.AST) -> str:
    """The code without comments and documentation."""
    tree = copy.deepcopy(tree)
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            documentation = [one for one in body if isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant)]
            node.body = [one for one in body if one not in documentation] or [ast.Pass()]  # type: ignore[attr-defined]
    return ast.unparse(tree)


def test_reasoning_gym_is_named_in_its_own_package_and_nowhere_else() -> None:
    found = {
        name: len(GYM.findall(without_documentation(tree)))
        for name, tree in trees().items()
        if Path(name).parent.name != "gym" and GYM.search((ROOT / name).read_text("utf-8"))
    }
    assert {name: count for name, count in found.items() if count} == NAMES_OF_GYM
