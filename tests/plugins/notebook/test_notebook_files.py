"""The notebooks of docs/notebooks: without outputs, in one form, and made of commands that swarm takes."""

from __future__ import annotations

import ast
import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from swarm.cli.main import add_plugins, app
from swarm.plugins import notebook as functions

FOLDER = Path(__file__).parents[3] / "docs" / "notebooks"
FILES = sorted(FOLDER.glob("*.ipynb"))
FIELD = re.compile(r"(?m)^([A-Z_]+) = (.+?)  # @param (.*)$")

add_plugins([])


def cells(file: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(file.read_bytes())["cells"]
    return found


def code(file: Path) -> list[str]:
    return ["".join(cell["source"]) for cell in cells(file) if cell["cell_type"] == "code"]


def form(file: Path) -> dict[str, list[str]]:
    """Field -> its default, and what else is offered."""
    found = FIELD.findall(code(file)[0])
    offered = {name: re.match(r"\[.*?\]", kind) for name, _, kind in found}
    return {
        name: [ast.literal_eval(value), *ast.literal_eval(m[0] if (m := offered[name]) else "[]")]
        for name, value, _ in found
    }


def commands(file: Path) -> list[str]:
    """Every `%swarm` line with the form's defaults in the fields' place, and with each other value of one of them."""
    fields, lines = form(file), re.findall(r"(?m)^%swarm (.+)$", "\n".join(code(file)))
    defaults = {name: values[0] for name, values in fields.items()}
    chosen = [defaults, *(defaults | {name: value} for name, values in fields.items() for value in values[1:])]
    return list(dict.fromkeys(line.format_map(values) for line in lines for values in chosen))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_a_notebook_is_committed_without_outputs_and_in_one_form(file: Path) -> None:
    text = file.read_text("utf-8")
    assert text == json.dumps(json.loads(text), indent=1, ensure_ascii=False) + "\n"
    assert len({cell["id"] for cell in cells(file)}) == len(cells(file))
    for cell in cells(file):
        if cell["cell_type"] == "code":
            assert (cell["outputs"], cell["execution_count"]) == ([], None), cell["id"]


@pytest.mark.parametrize(("file", "line"), [(file.name, line) for file in FILES for line in commands(file)])
def test_a_command_of_a_notebook_is_one_that_swarm_takes(file: str, line: str) -> None:
    words = shlex.split(line)
    app.parse_args(words[words[0] == "background" :], exit_on_error=False, print_error=False)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_a_notebook_has_no_logic_of_its_own(file: Path) -> None:
    """But where to install swarm from: that cannot be in it."""
    for cell in cells(file):
        if cell["cell_type"] != "code":
            continue
        text = "".join(cell["source"])
        tree = ast.parse("\n".join(line for line in text.splitlines() if not line.startswith(("%", "!"))))
        kept = [ast.For, ast.While, ast.FunctionDef, ast.ClassDef, ast.Try, ast.Lambda]
        kept += [ast.If] if cell["id"] != "install" else []
        assert not [node for node in ast.walk(tree) if isinstance(node, tuple(kept))], text
        named = [alias.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names]
        assert {name for name in named if name in vars(functions)} <= {*functions.__all__}


def test_the_first_notebook_rehearses_unless_somebody_chooses_otherwise() -> None:
    fields = form(FOLDER / "swarm.ipynb")
    assert "--rounds 10 " in fields["COMMAND"][0]
    assert any("--rounds 2000 " in command for command in fields["COMMAND"])
    assert "join" in fields["COMMAND"]
    assert any("--test" in command for command in fields["COMMAND"])
    assert fields["MIRROR"][0].startswith("/content/drive/")
    assert not fields["PATH"][0].startswith("/content/drive/")
    assert fields["ASK_FOR_SECRETS"] == [False]
