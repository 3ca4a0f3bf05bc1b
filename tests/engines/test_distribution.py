"""The wheel and the sdist, built and installed as a user would have them: regular, not editable."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.engines.installed import install, run
from tests.integration.hostile_folder import make_hostile, marks
from tests.integration.swarms import environment

ROOT = Path(__file__).parents[2]
pytestmark = [pytest.mark.engine, pytest.mark.xdist_group("distribution"), pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one wheel and one sdist, both made from a copy of this checkout."""
    source, target = tmp_path_factory.mktemp("source") / "checkout", tmp_path_factory.mktemp("dist")
    shutil.copytree(ROOT, source, ignore=shutil.ignore_patterns(".*", "build", "*.egg-info", "__pycache__", "runs"))
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", target, source)
    return target


@pytest.fixture(scope="module")
def installed(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The `bin` of an environment with the wheel in it and the packages of this one beneath."""
    (wheel,) = built.glob("*.whl")
    return install(wheel, tmp_path_factory.mktemp("environment"))


def test_wheel_and_sdist_hold_the_package_its_models_and_its_forms(built: Path) -> None:
    (wheel,), (sdist,) = built.glob("*.whl"), built.glob("*.tar.gz")
    names = set(zipfile.ZipFile(wheel).namelist())
    pages = {"swarm/wire/PROTOCOL.md", "swarm/wire/FORMS.md"}
    models = ("swarm/assets/models/tiny-qwen2", "swarm/plugins/lab/assets/models/tiny-qwen2-rare")
    needed = pages | {"swarm/py.typed", *(f"{folder}/model.safetensors" for folder in models)}
    assert needed <= names
    assert {name.split("/")[0] for name in names if ".dist-info" not in name} == {"swarm", "services"}
    with tarfile.open(sdist) as archive:
        packed = {name.partition("/")[2] for name in archive.getnames()}
    assert {name for name in names if ".dist-info" not in name} <= packed


def test_an_installed_swarm_runs_from_any_folder_a_hostile_one_included(installed: Path, tmp_path: Path) -> None:
    folder = make_hostile(tmp_path)
    env = {k: v for k, v in environment(folder).items() if k not in ("MAX_ROUNDS", "PYTHONPATH")}
    done = subprocess.run(
        [installed / "swarm", "up", "--path", ".", "--nodes", "2", "--rounds", "2"],
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert marks(folder) == []
    where = run(installed / "python", "-P", "-c", "import swarm; print(swarm.__file__)", cwd=folder)
    assert where.startswith(os.fspath(installed.parent))


def test_a_clone_that_is_called_swarm_hides_nothing_from_the_folder_that_holds_it(tmp_path: Path) -> None:
    clone, wheels = tmp_path / "held" / "swarm", tmp_path / "wheels"
    for name in ("swarm", "services"):
        shutil.copytree(ROOT / name, clone / name, ignore=shutil.ignore_patterns("__pycache__", "models"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, clone / name)
    wheels.mkdir()
    build = f"from setuptools.build_meta import build_editable; build_editable({str(wheels)!r})"
    run(sys.executable, "-c", build, cwd=clone)
    (wheel,) = wheels.glob("*.whl")
    python = install(wheel, tmp_path / "environment") / "python"
    code = "import swarm.plugins.notebook, swarm.cli.main; print(swarm.__file__)"
    where = run(python, "-c", code, cwd=clone.parent, env={"PATH": os.environ["PATH"]})
    assert where.strip() == os.fspath(clone / "swarm" / "__init__.py")
