"""Wrong command lines, each with the remedy that must be shown: exit 2, and never a traceback; screens have more.

A row is a command line and what the terminal must show, parts of it separated by `|`.
"""

from __future__ import annotations

import io
import shlex
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from swarm.cli.main import run
from tests.unit.cli.test_screens import alone, make_place

TABLE = {
    "words": """
--verson                          swarm --version
-v                                swarm --version
stauts                            "status"
ls                                swarm experiment list
background ls                     setsid swarm COMMAND
bogus                             Available commands
experiment lst                    "list"
experiment rm exp                 swarm experiment clean NAME
""",
    "up: flags": """
up -n 4                           type --nodes
up --epochs 5                     type --rounds
up --task bf                      Did you mean --tasks?
up --name demo                    type --experiment
up --gpu                          type --device cuda
up --against                      --against requires an argument
up --adaptive maybe               maybe
""",
    "up: values": """
up --nodes four                   --nodes|four
logs -n 2.5                       -n|2.5
up --rounds 0                     --rounds: |whole number from 1
up --learning-rate nan            --learning-rate: |above 0
up --profile tny-3                --profile: |did you mean 'tiny-3'
up --tasks chess                  'chess'|basic_arithmetic
up --tasks binary_matrx           did you mean 'binary_matrix'
up --tasks ,                      --tasks: |separated by commas
up --tasks mine.jsnl              ends in .jsonl
up --tasks nowhere.jsonl          no file |nowhere.jsonl|relative to where it is typed
up --mixture chess=2              'chess'|binary_matrix
up --mixture bf=x                 chain_sum=2
up --model ''                     --model: |names
up --push nowhere                 --push: |USER/NAME
up --sink tensorbord              tensorboard
up --experiment ../x              --experiment: |folder name
up --experiment ''                --experiment: |folder name
""",
    "up: files and places": """
up --config bad.toml              bad.toml|line 1, column 8
up --config odd.toml              did you mean 'seed'
up --path s4://bucket             s3://BUCKET/PREFIX
up --path http://                 https://HOST/FOLDER
up --slurm-time 5                 say --on slurm
up --against aloen                did you mean 'alone'
up --against extrenal=0           did you mean 'external'
up --against external=x           whole number from 0
up --against external=4           name another value
up --seeds 3                      --against
up --against alone --seeds 0      --seeds|>= 1
""",
    "node and join": """
node --node-id 'a b'              --node-id: |letters, digits
node --node-id a.1                NODE_ID=a-1
node --name anna                  --node-id of a node
""",
    "looking": """
status --wach                     --watch
inspect --node alcie              there are rounds 0 to 2
summary --plot x.foo              .png or .svg
""",
    "keeping": """
export -o t.foo                   .csv, .parquet, .jsonl
experiment list --path nowhere    there is no folder
experiment clean                  swarm experiment clean NAME
""",
    "models and tasks": """
study run sappo                   did you mean 'sapo'
study run nofile.toml             nofile.toml
""",
    "files, folders and other systems": """
up --path file.txt                --path: |is a file; name a folder
join file.txt                     is a file; name a folder
up --path 'C:\\Users\\me\\runs'       is a path of Windows
up --mirror same --path same      --mirror: expected another place
up --model ./nowhere --experiment new     no folder is at
up --model file.txt --experiment new      is a file
summary --plot /nosuch/x.png      there is no folder /nosuch
web --export /nosuch/x.html       there is no folder /nosuch
task try nofile.py                swarm task new
copy . s3://                      s3://BUCKET/PREFIX
""",
    "words, numbers and quotes": """
status exp                        --experiment exp
up nodes 4                        --nodes
up --experiment “demo”            letters, digits
up --rounds 1,000                 --rounds|1,000
up --tasks 'basic_arithmetic;bf'  basic_arithmetic, arc_1d
up --against local                external=0,local=8
node --role Worker                did you mean 'worker'
logs --since 5                    90s, 10m
logs --since 5 minutes            minutes
logs --level WARN                 "warning"
inspect --round 0-2               --round|0-2
export exp exp                    exp
experiment show exp               swarm status
model export nobody               'nobody'
model push alice                  USER/NAME
model push alice --repo a/b --follow --rounds 3   --follow|--rounds
model build out --names nosuch    tiny-2-qwen2
task new 'my task'                letters, digits
settings seed=7                   did you mean 'seed'
completion powershell             "bash"
study run sapo --seeds one        --seeds
study run file.txt                ends in .toml
study report nosuch               swarm study run
study compare exp nosuch          'nosuch'
""",
}
ROWS = [
    pytest.param(line, wanted, id=line)
    for rows in TABLE.values()
    for row in filter(None, rows.splitlines())
    for line, _, wanted in [row.partition("  ")]
]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("place").resolve()
    make_place(folder)
    (folder / "bad.toml").write_text("seed = = 3\n")
    (folder / "odd.toml").write_text("sed = 3\n")
    (folder / "file.txt").write_text("hello\n")
    with alone(folder):
        yield folder


@pytest.mark.parametrize(("line", "wanted"), ROWS)
def test_a_wrong_input_is_refused_with_its_remedy(line: str, wanted: str, place: Path) -> None:
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = run(shlex.split(line))
    said = " ".join(part.strip("│ ") for part in (err.getvalue() + out.getvalue()).splitlines())
    assert code == 2, said
    for part in wanted.lstrip().split("|"):
        assert part in said


@pytest.mark.usefixtures("place")
def test_a_model_that_is_none_is_refused_with_the_one_that_was_meant(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["plan", "--model", "tiny-2-qwen"]) != 0
    assert "did you mean 'tiny-2-qwen2'" in capsys.readouterr().err
