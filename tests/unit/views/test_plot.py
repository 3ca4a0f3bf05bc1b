"""The picture of a run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from swarm.errors import ConfigError, StoreError
from swarm.records.reader import snapshot
from swarm.views.plot import moving_average, save_reward_plot
from tests.unit.views.factories import make_experiment, run_of


def rewards(folder: Path) -> dict[str, dict[int, float]]:
    """Returns node -> round -> reward of a run."""
    return {node: of.measured_rewards for node, of in snapshot(run_of(make_experiment(folder))).progress.items()}


@pytest.mark.parametrize(("name", "start"), [("a.png", b"\x89PNG"), ("b.svg", b"<?xml")])
def test_the_suffix_decides_the_format(tmp_path: Path, name: str, start: bytes) -> None:
    pytest.importorskip("matplotlib")
    save_reward_plot(rewards(tmp_path), tmp_path / name)
    data = (tmp_path / name).read_bytes()
    assert data.startswith(start)
    assert len(data) > 5000


def test_other_suffixes_and_empty_runs_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"\.png or \.svg"):
        save_reward_plot({}, tmp_path / "a.gif")
    with pytest.raises(ConfigError, match="nothing to plot"):
        save_reward_plot({}, tmp_path / "a.png")


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    drawn = rewards(tmp_path)
    (tmp_path / "file").touch()
    for place in (tmp_path / "file" / "a.png", tmp_path / "folder.png"):
        (tmp_path / "folder.png").mkdir(exist_ok=True)
        with pytest.raises(StoreError, match=f"cannot write the plot {place}.*name a file in a folder"):
            save_reward_plot(drawn, place)


def test_without_matplotlib_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = rewards(tmp_path)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ConfigError, match=r"pip install .*matplotlib"):
        save_reward_plot(drawn, tmp_path / "a.png")


def test_pyplot_is_not_imported(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    code = (
        "import sys; from pathlib import Path; from swarm.views.plot import save_reward_plot;"
        f"save_reward_plot({{'a': {{0: 0.5, 1: 0.6}}}}, Path({str(tmp_path)!r}) / 'a.svg');"
        "sys.exit('matplotlib.pyplot' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_moving_average_looks_back_only() -> None:
    assert moving_average([1.0, 3.0, 5.0, 7.0], 2) == [1.0, 2.0, 4.0, 6.0]
