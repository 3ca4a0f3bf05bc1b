"""The wheel and the sdist, built and installed as a user would have them: regular, not editable."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from email import message_from_bytes
from pathlib import Path

import pytest

from swarm import __version__
from tests.engines.installed import install, run
from tests.integration.hostile_folder import make_hostile, marks
from tests.integration.swarms import environment, rows

ROOT = Path(__file__).parents[2]
QUESTIONS = '{"question": "What is 2 + 3?", "answer": "5"}\n{"question": "What is 4 + 3?", "answer": 7}\n'
pytestmark = [pytest.mark.engine, pytest.mark.xdist_group("distribution"), pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an sdist of this checkout, the wheel made of it, and below `of_the_checkout` the checkout's own."""
    source, target = tmp_path_factory.mktemp("source") / "checkout", tmp_path_factory.mktemp("dist")
    shutil.copytree(ROOT, source, ignore=shutil.ignore_patterns(".*", "build", "*.egg-info", "__pycache__", "runs"))
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", target, source)
    run(sys.executable, "-m", "build", "--no-isolation", "--wheel", "--outdir", target / "of_the_checkout", source)
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


def contents(wheel: Path) -> dict[str, int]:
    """Name -> checksum of each file of a wheel; RECORD has the same once more."""
    with zipfile.ZipFile(wheel) as archive:
        return {one.filename: one.CRC for one in archive.infolist() if not one.filename.endswith("/RECORD")}


def test_a_wheel_of_the_sdist_is_a_wheel_of_the_checkout(built: Path) -> None:
    (of_the_sdist,), (of_the_checkout,) = built.glob("*.whl"), (built / "of_the_checkout").glob("*.whl")
    assert contents(of_the_sdist) == contents(of_the_checkout)
    assert of_the_sdist.name == f"swarm_sapo-{__version__}-py3-none-any.whl"


def test_the_package_page_follows_no_link_into_the_repository_and_says_the_licence(built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        (page,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        said = message_from_bytes(archive.read(page))
        assert any(name.endswith("/licenses/LICENSE") for name in archive.namelist())
    text = str(said.get_payload())
    assert "swarm up" in text
    assert [link for link in re.findall(r"\]\(([^)]*)\)", text) if not link.startswith("https://")] == []
    assert (said["License-Expression"], said["Requires-Python"]) == ("MIT", ">=3.11")
    assert len(said.get_all("Classifier") or []) > 5


def test_the_newest_release_of_the_changelog_is_this_version_and_is_read_in_five_minutes() -> None:
    text = (ROOT / "CHANGELOG.md").read_text("utf-8")
    headings = re.findall(r"^## \[(.+?)\](?: - (\d{4}-\d\d-\d\d))?$", text, re.MULTILINE)
    assert headings[0] == ("Unreleased", "")
    assert headings[1][0] == __version__
    assert headings[1][1]
    assert f"version: {__version__}\n" in (ROOT / "CITATION.cff").read_text("utf-8")
    (newest,) = re.findall(r"^## \[\d.*?(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)[:1]
    assert len(newest.split()) <= 1300


def test_pip_finds_nothing_missing_for_the_installed_swarm(installed: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pip", "--python", installed / "python", "check"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert [line for line in done.stdout.splitlines() if line.startswith("swarm-sapo")] == []
    assert done.returncode == 0, done.stdout + done.stderr


def test_an_installed_swarm_runs_from_any_folder_a_hostile_one_included_on_own_questions_with_an_own_model(
    installed: Path, tmp_path: Path
) -> None:
    folder = make_hostile(tmp_path)
    shutil.copytree(ROOT / "swarm" / "assets" / "models" / "tiny-2-qwen2", folder / "my model")
    (folder / "my questions.jsonl").write_text(QUESTIONS)
    env = {k: v for k, v in environment(folder).items() if k not in ("MAX_ROUNDS", "MODEL_NAME", "PYTHONPATH")}
    named = ("--tasks", "my questions.jsonl", "--model", "./my model")
    done = subprocess.run(
        [installed / "swarm", "up", "--path", ".", "--nodes", "2", "--rounds", "2", *named],
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert marks(folder) == []
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("a round takes about")]
    assert "the clock allows" in line
    assert {name for row in rows(folder, "worker-0") for name in row["task_rewards"]} == {"dataset/my_questions"}
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
