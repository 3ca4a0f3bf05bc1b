"""python -m tests.sizes counts what is there, by room, and compares with an earlier commit."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.sizes import Size, budgets, counts, report, room_of, sizes, sources

FIRST = '"""A module."""\n\n\ndef one() -> int:\n    """Returns 1."""\n    return 1\n'


def commit(root: Path, **files: str) -> str:
    for path, text in files.items():
        file = root / path.replace("__", "/").replace("_py", ".py").replace("_md", ".md")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b"]
    for command in (["git", "init", "-q"], ["git", "add", "-A"], [*git, "commit", "-qm", "more"]):
        subprocess.run(command, cwd=root, check=True)
    return (
        subprocess.run(["git", "rev-parse", "HEAD"], cwd=root, check=True, capture_output=True).stdout.decode().strip()
    )


def test_docstrings_are_no_statements_and_plugins_are_none_of_the_core() -> None:
    found = sizes(
        {"swarm/algo/a.py": FIRST, "swarm/b.py": "x = 1\n", "swarm/plugins/top/c.py": FIRST, "docs/d.md": "a b"}
    )
    assert found["swarm/algo"] == found["swarm/plugins/top"] == found["plugins"] == Size(1, 6, 2)
    assert found["core"] == Size(2, 7, 3)


def test_rooms() -> None:
    assert room_of("swarm/node/worker/worker.py") == "swarm/node"
    assert room_of("swarm/plugins/study/run/a.py") == "swarm/plugins/study"
    assert room_of("swarm/types.py") == "swarm"
    assert room_of("tests/unit/test_sizes.py") == "tests"
    assert room_of("setup.py") == room_of("swarm/plugins/__init__.py") == ""


def test_commands_settings_columns_and_words_are_counted() -> None:
    files = {
        "swarm/cli/main.py": 'COMMANDS = {"up": 1, "down": 2}\n',
        "swarm/plugins/top/commands.py": 'COMMANDS = {"top": 1}\n',
        "swarm/config/settings.py": (
            "class Keys(SettingTable):\n    b: int = setting(3)\nclass Settings:\n    a: int = setting(1)\n    c = 2\n"
        ),
        "swarm/wire/metrics.py": "class MetricsRow:\n    a: int\n    b: int = 0\n",
        "docs/one.md": "two words",
    }
    assert {what: number for what, number in counts(files).items() if number} == {
        "commands of the core": 2,
        "commands of plugins": 1,
        "settings": 1,
        "keys of settings": 1,
        "columns of a row": 2,
        "words of docs": 2,
    }


def test_an_earlier_commit_is_compared_with(tmp_path: Path) -> None:
    before = commit(tmp_path, swarm__algo__a_py=FIRST, swarm__wire__b_py="x = 1\n", docs__d_md="one")
    page = "## The tree\n\n```\nswarm/\n  algo/    900  losses\n```\n"
    commit(tmp_path, swarm__algo__a_py=FIRST + "y = 2\n", docs__development_md=page)
    lines = list(report(sources(tmp_path), sources(tmp_path, before), budgets(tmp_path)))
    (algo,) = [line for line in lines if line.startswith("swarm/algo")]
    assert algo.split() == ["swarm/algo", "1", "7", "900", "3", "(+0,", "+1,", "+1)"]
    (wire,) = [line for line in lines if line.startswith("swarm/wire")]
    assert "(" not in wire
    (words,) = [line for line in lines if line.startswith("words of docs")]
    assert words.endswith("(+9)")
