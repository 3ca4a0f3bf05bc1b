"""The notebooks of docs/notebooks, executed by a real kernel in an environment in which swarm was not, on the embedded
model: a rehearsal, a swarm over a bucket that is joined, a session that is lost, a study."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import swarm
from tests.engines.installed import run
from tests.engines.s3_servers import BUCKET, CREDENTIALS, moto
from tests.integration.swarms import daemons, environment, eventually, json_lines, run_swarm
from tests.layout import Layout
from tests.patience import PATIENCE
from tests.plugins.notebook.notebooks import ROOT, Machine, filled_in, texts
from tests.unit.views.tables.small_study import copy_of_small

pytestmark = [pytest.mark.engine, pytest.mark.xdist_group("notebooks"), pytest.mark.timeout(4 * PATIENCE)]
SECRET = "hf_nobody_may_see_this"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    source, target = tmp_path_factory.mktemp("source") / "checkout", tmp_path_factory.mktemp("dist")
    shutil.copytree(ROOT, source, ignore=shutil.ignore_patterns(".*", "build", "*.egg-info", "__pycache__", "runs"))
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", target, source)
    (built,) = target.glob("*.whl")
    return built


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    made = Machine(tmp_path / "machine", HUGGINGFACE_ACCESS_TOKEN=SECRET, **CREDENTIALS)
    try:
        yield made
    finally:
        made.lose()


def package(wheel: Path, extras: str = "analysis,bucket") -> str:
    return f"swarm-sapo[{extras}] @ {wheel.as_uri()}"


def rounds_of(place: Path, node: str) -> list[int]:
    return [row["round"] for row in json_lines(Layout(place, "exp").metrics_file(node))]


def whole(place: Path) -> bool:
    checked = run_swarm(environment(place), "validate", "--path", str(place), "--experiment", "exp")
    return checked.returncode == 0


def test_a_rehearsal_runs_from_the_installation_to_the_archive(wheel: Path, machine: Machine, tmp_path: Path) -> None:
    drive, archive = tmp_path / "drive", tmp_path / "exp.tar.gz"
    choices = {"PATH": str(machine.work / "runs"), "MIRROR": str(drive), "EXPERIMENT": "exp", "ARCHIVE": str(archive)}
    said = machine.run(filled_in("swarm.ipynb", **choices, PACKAGE=package(wheel)))
    assert "torch==" in said["install"]
    assert "HUGGINGFACE_ACCESS_TOKEN: from the environment" in said["session"]
    assert "no GPU is here: tiny-2-qwen2" in said["session"]
    assert "export MODEL_NAME=tiny-2-qwen2" in said["session"]
    assert "nothing here stops a swarm" in said["doctor"]
    assert "fits: 4 nodes on cpu" in said["dry-run"]
    quick = "10 rounds by 4 nodes in" in said["start"]  # a fast machine is done while the cell still shows the output
    assert quick or "it goes on in the background" in said["start"]
    assert "finished: 10 of 10 rounds" in said["watch"]
    assert "exp is whole" in said["health"]
    assert "cumulative reward" in said["plot"]
    assert "<image/png>" in said["plot"]
    assert "the copy is whole" in said["archive"]
    assert archive.stat().st_size > 0
    for place in (machine.work / "runs", drive):
        assert whole(place)
        assert all(rounds_of(place, f"worker-{n}") == list(range(10)) for n in range(4))
    files = [file for top in (machine.work, drive) for file in top.rglob("*") if file.is_file()]
    assert not [file for file in files if SECRET.encode() in file.read_bytes()], "a secret is in an output or a file"


def installed_alone(name: str, **values: object) -> dict[str, Any]:
    """A notebook as it is shipped, up to its installation."""
    notebook = filled_in(name, **values)
    notebook["cells"] = [cell for cell in notebook["cells"] if cell["id"] in ("parameters", "install")]
    return notebook


@pytest.mark.parametrize(("name", "form"), [("swarm.ipynb", "clone"), ("study.ipynb", "wheel")])
def test_the_install_cell_as_shipped_installs_what_lies_beside_the_notebook(
    wheel: Path, tmp_path: Path, name: str, form: str
) -> None:
    machine = Machine(tmp_path / "machine", PIP_NO_BUILD_ISOLATION="0")  # pip reads it so: no index has setuptools here
    try:
        if form == "wheel":
            source = shutil.copy(wheel, machine.work)
        else:
            unwanted = shutil.ignore_patterns(".*", "build", "*.egg-info", "__pycache__", "runs")
            source = shutil.copytree(ROOT, machine.work / "a clone", ignore=unwanted)
        said = machine.run(installed_alone(name))["install"]
        assert f"swarm {swarm.__version__} from {Path(source).as_uri()}" in said
    finally:
        machine.lose()


def test_where_swarm_is_nowhere_the_install_cell_says_what_to_name(machine: Machine) -> None:
    with machine.start(installed_alone("swarm.ipynb")) as running:
        assert running.wait(PATIENCE) != 0
    said = texts(machine.executed())["install"]
    assert "swarm-sapo[analysis,bucket] @ git+https://" in said
    assert "Looking in" not in said, "no index is asked for a name that anybody may have taken"


@pytest.mark.slow
def test_a_swarm_over_a_bucket_is_joined(wheel: Path, machine: Machine, tmp_path: Path) -> None:
    with moto() as port, daemons() as start:
        url = f"s3://{BUCKET}/place?endpoint=http://127.0.0.1:{port}"
        quick = {"SWARM_EXPECTED_WORKERS": "anna,colab", "SWARM_HEARTBEAT_INTERVAL": "1", **CREDENTIALS}
        env = environment(tmp_path, **quick) | {"GDRIVE_PATH": url, "EXPERIMENT_NAME": "exp"}
        clock = start("swarm", env, "node", "--role", "coordinator", "--node-id", "clock")
        anna = start("swarm", env, "join", url, "--node-id", "anna")
        choices = {"PATH": url, "MIRROR": "", "EXPERIMENT": "exp", "ARCHIVE": str(tmp_path / "exp.tar.gz")}
        command = "join --node-id colab"
        said = machine.run(filled_in("swarm.ipynb", **choices, COMMAND=command, PACKAGE=package(wheel)))
        assert (clock.wait(), anna.wait()) == (0, 0), clock.output + anna.output
    assert "nothing here stops a swarm" in said["doctor"]
    assert "taken from it: SEED=42" in said["dry-run"]
    assert "finished: 4 of 4 rounds" in said["watch"]
    assert "exp is whole" in said["health"]
    shutil.unpack_archive(tmp_path / "exp.tar.gz", tmp_path / "here", filter="data")
    assert all(rounds_of(tmp_path / "here", node) == [0, 1, 2, 3] for node in ("anna", "colab"))


def test_a_session_that_is_lost_in_mid_run_goes_on_in_a_new_one(wheel: Path, tmp_path: Path) -> None:
    """With the mirror's rows as they were; what the mirror had not yet is done again, each round once."""
    rounds, drive, place = 20, tmp_path / "drive", tmp_path / "machine" / "content" / "runs"
    choices = {"PATH": str(place), "MIRROR": str(drive), "EXPERIMENT": "exp", "ARCHIVE": str(tmp_path / "exp.tar.gz")}
    command = f"up --nodes 2 --rounds {rounds} --in-process --checkpoint-interval 5 --unless-finished"
    notebook = filled_in("swarm.ipynb", **choices, COMMAND=command, PACKAGE=package(wheel))
    nodes = ("worker-0", "worker-1")
    lost = Machine(tmp_path / "machine")
    with lost.start(notebook):
        try:
            eventually(lambda: all(rounds_of(drive, node) for node in nodes), "rounds in the mirror", 2 * PATIENCE)
        finally:
            lost.lose()
    before = {node: json_lines(Layout(drive, "exp").metrics_file(node)) for node in nodes}
    assert all(0 < len(rows) < rounds for rows in before.values())
    second = Machine(tmp_path / "machine")
    try:
        said = second.run(notebook)
        assert "rounds are here again" in said["start"]
        assert f"finished: {rounds} of {rounds} rounds" in said["watch"]
        for where in (place, drive):
            assert whole(where)
            for node in nodes:
                assert rounds_of(where, node) == list(range(rounds)), "each round once"
                assert json_lines(Layout(where, "exp").metrics_file(node))[: len(before[node])] == before[node]
    finally:
        second.lose()


def test_the_stop_button_and_the_end_of_the_kernel_end_no_swarm(wheel: Path, machine: Machine, tmp_path: Path) -> None:
    """So many rounds that the swarm still runs when it is looked for again, on the slowest machine."""
    place, archive = machine.work / "runs", tmp_path / "exp.tar.gz"
    choices = {"PATH": str(place), "MIRROR": "", "EXPERIMENT": "exp", "ARCHIVE": str(archive)}
    command = "up --nodes 2 --rounds 4000 --in-process --unless-finished"
    notebook = filled_in("swarm.ipynb", **choices, COMMAND=command, PACKAGE=package(wheel))
    before = machine.run(notebook, leave_at="watch")
    assert "4000 done" in before["watch"]
    assert "finished: " not in before["watch"]
    after = machine.run(notebook, leave_at="watch")
    assert "runs already, nothing was started" in after["start"]
    rounds = rounds_of(place, "worker-0")
    eventually(lambda: len(rounds_of(place, "worker-0")) > len(rounds), "rounds after the kernel's end", PATIENCE)
    assert rounds == list(range(len(rounds))), "each round once"


def test_a_finished_study_is_analysed(wheel: Path, machine: Machine, tmp_path: Path) -> None:
    place = copy_of_small(tmp_path)
    before = {file: file.read_bytes() for file in place.rglob("*") if file.is_file()}
    said = machine.run(filled_in("study.ipynb", PATH=str(place), STUDY="small", PACKAGE=package(wheel, "analysis")))
    assert before == {file: file.read_bytes() for file in place.rglob("*") if file.is_file()}
    assert "small" in said["session"]
    assert "wrote report/report.md" in said["report"]
    assert "2/2" in said["comparison"]
    assert "hedges_g" in said["comparison"]
    assert all("<image/png>" in said[cell] for cell in ("cumulative", "curves", "frames"))
    assert "threshold" in said["thresholds"]
