"""Wrong command lines, each with the remedy that must be shown: exit 2, and never a traceback.

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
-V                                swarm --version
version                           swarm --version
help                              swarm --help
help up                           swarm COMMAND --help
--halp                            swarm --help
stauts                            "status"
statsu                            "status"
experiments                       swarm experiment list
list                              swarm experiment list
ls                                swarm experiment list
train                             swarm up
run                               swarm up
start                             swarm up
init                              swarm up
stop                              swarm down
kill                              swarm down
ps                                swarm status
tail                              swarm logs -f
plot                              swarm summary --plot
dashboard                         swarm web
config                            swarm settings
compare                           swarm up --against alone
background ls                     setsid swarm COMMAND
bogus                             Available commands
experiment lst                    "list"
experiment ls                     "list"
experiment delete exp             swarm experiment clean NAME
experiment rm exp                 swarm experiment clean NAME
task nwe riddles                  "new"
task ls                           "list"
keys list                         Available commands: new, show, forget
model exprot alice                "export"
judge exmas                       "exam"
study rnu sapo                    "run"
completion bsh                    "bash"
""",
    "up: flags": """
up -n 4                           type --nodes
up --workers 4                    type --nodes
up --node 4                       Did you mean --nodes?
up --round 5                      Did you mean --rounds?
up --epochs 5                     type --rounds
up --steps 5                      type --rounds
up --externl 2                    Did you mean --external?
up --lr 0.1                       type --learning-rate
up --task bf                      Did you mean --tasks?
up --dataset x                    type --tasks
up --models tiny-2-qwen2          Did you mean --model?
up --name demo                    type --experiment
up --gpu                          type --device cuda
up --folder x                     type --path
up --quiet                        type --log-level
up --dryrun                       Did you mean --dry-run?
up --against                      --against requires an argument
up extra                          extra
up --adaptive maybe               maybe
""",
    "up: values": """
up --nodes four                   --nodes|four
up --nodes 2.5                    --nodes|2.5
up --rounds 30.0                  --rounds|30.0
logs -n 2.5                       -n|2.5
up --nodes 0                      --nodes must be at least 1
up --nodes -1                     --nodes must be at least 1
up --rounds ten                   --rounds|ten
up --rounds 0                     --rounds: |whole number from 1
up --rounds -3                    --rounds: |whole number from 1
up --seed x                       --seed|x
up --seed -1                      --seed: |whole number from 0
up --local 0                      --local: |whole number from 1
up --local x                      --local|x
up --external -1                  --external: |whole number from 0
up --generations 1                --generations: |from 2 to 1024
up --generations 2000             --generations: |from 2 to 1024
up --learning-rate fast           --learning-rate|fast
up --learning-rate -1             --learning-rate: |above 0
up --learning-rate 0              --learning-rate: |above 0
up --learning-rate nan            --learning-rate: |above 0
up --temperature 0                --temperature: |above 0
up --temperature hot              --temperature|hot
up --max-new-tokens 0             --max-new-tokens: |from 1
up --profile tny-3                --profile: |did you mean 'tiny-3'
up --profile paper3               --profile: |did you mean 'paper'
up --profile hard                 --profile: |tiny-3, tiny-2
up --tasks chess                  'chess'|basic_arithmetic
up --tasks binary_matrx           did you mean 'binary_matrix'
up --tasks ,                      --tasks: |separated by commas
up --tasks mine.jsnl              ends in .jsonl
up --tasks nowhere.jsonl          no file |nowhere.jsonl|relative to where it is typed
up --mixture chess=2              'chess'|binary_matrix
up --mixture bf=x                 chain_sum=2
up --model ''                     --model: |names
up --threads 0                    --threads: |from 1 to 1024
up --threads 9999                 --threads: |from 1 to 1024
up --adapter lroa                 --adapter: |did you mean 'lora'
up --loss gropo                   --loss: |did you mean 'grpo'
up --sampler unifrom              --sampler: |did you mean 'uniform'
up --staleness 2                  --staleness: |from 0 to 1
up --adaptive-rule gradeint       --adaptive-rule: |did you mean 'gradient'
up --round-interval 0             --round-interval: |above 0
up --checkpoint-interval -1       --checkpoint-interval: |from 0
up --stages 0                     --stages: |from 1 to 16
up --stages 99                    --stages: |from 1 to 16
up --preset papre                 paper
up --log-level loud               --log-level: |debug, info
up --push nowhere                 --push: |USER/NAME
up --push-every -1                --push-every: |from 0
up --sink tensorbord              tensorboard
up --experiment ../x              --experiment: |folder name
up --experiment ''                --experiment: |it is empty
up --experiment 'a b'             --experiment: |it has ' ' in it
up --experiment .hidden           --experiment: |starts with '.'
""",
    "up: files and places": """
up --config nofile.toml           nofile.toml|swarm settings --example
up --config bad.toml              bad.toml|line 1, column 8
up --config odd.toml              did you mean 'seed'
up --config there                 swarm settings --example
up --path s4://bucket             s3://BUCKET/PREFIX
up --path s3://                   s3://BUCKET/PREFIX
up --path http://                 https://HOST/FOLDER
up --from nothing                 'nothing'|there are begun, exp, torn
up --slurm-time 5                 say --on slurm
up --json --dry-run               give one of them
up --against aloen                did you mean 'alone'
up --against extrenal=0           did you mean 'external'
up --against external=x           whole number from 0
up --against external=4           name another value
up --seeds 3                      --against
up --against alone --seeds 0      --seeds must be at least 1
up --against alone --json         leave out --json
""",
    "node and join": """
node --role worke                 --role: |did you mean 'worker'
node --role cordinator            --role: |did you mean 'coordinator'
node --node-id 'a b'              --node-id: |it has ' ' in it
node --node-id a.1                NODE_ID=a-1
node --name anna                  --node-id of a node
node --nodes 0                    --nodes
node --standby                    --role coordinator
node --expected-workers 0         --expected-workers: |from 1
node --settle-time -1             --settle-time: |from 0
node --model a,b                  swarm up
node --tasks chess                'chess'|basic_arithmetic
node --profile hard               --profile: |tiny-3
join --role coordinator           --role
join --as anna                    --as
down --timeout -1                 --timeout
down --timeout soon               --timeout|soon
""",
    "looking": """
status --experiment epx           did you mean 'exp'
status --path nowhere             --experiment, and --path
status --wach                     --watch
status --bogus                    --bogus
logs --lines many                 --lines|many
logs --lines -1                   --lines
logs --level loud                 --level
logs --event round.compelted      did you mean 'round.completed'
logs --event rund.*               did you mean 'round.*'
logs --node alcie                 did you mean 'alice'
logs --node zoe                   there are alice, bob, clock
logs --since yesterday            --since
logs --experiment epx             did you mean 'exp'
inspect --round x                 --round|x
inspect --groups 0                --groups
inspect --node alcie              there are rounds 0 to 2
inspect --round 99                there are rounds 0 to 2
inspect --task chess              there are rounds 0 to 2
inspect --experiment epx          did you mean 'exp'
summary --experiment epx          did you mean 'exp'
summary --jsn                     Did you mean --json?
summary --plot x.foo              .png or .svg
validate --rounds x               --rounds|x
validate --node bbo               bob
validate --experiment epx         did you mean 'exp'
doctor --seconds soon             --seconds|soon
doctor --seconds 0                --seconds
doctor --nonsense                 --nonsense
doctor --experiment epx           did you mean 'exp'
web --port 70000                  --port
web --port http                   --port|http
web --host 0.0.0.0                --allow-host
web --export there                --force
web --interval 0                  --interval
web --experiment epx --export x   did you mean 'exp'
""",
    "keeping": """
export nothing                    there are begun, exp, torn
export -o t.foo                   .csv, .parquet, .jsonl
export --table rewrds             Did you mean "rewards"
experiment list --path nowhere    there is no folder
export exp --study small          name one experiment or study
copy . .                          two places
copy . away --experiment epx      did you mean 'exp'
experiment clean                  swarm experiment clean NAME
experiment clean epx --yes        did you mean 'exp'
experiment clean exp              --yes
experiment clean ../place --yes   folder name
experiment prune                  swarm experiment prune NAME
experiment prune exp --keep x     --keep|x
experiment archive epx            did you mean 'exp'
model export alice --rounds 2     after 3 rounds
keys forget nobody                swarm keys show --known
keys show --known --experiment epx    did you mean 'exp'
judge exam --experiment epx       did you mean 'exp'
judge exam --samples 0            --samples must be from 1
""",
    "models and tasks": """
ask --task bf --samples 0         --samples must be from 1
ask --task bf --model a,b         --model
probe --questions 9999            --questions must be from 1
probe --levels high               0,1,2
plan --nodes 0                    --nodes
plan --device-memory 16           16
plan --tasks typo                 typo
settings --sampler best           --sampler: |uniform
settings --seed -3                --seed: |from 0
settings --preset papre           paper
settings lerning_rate             learning_rate
study run sappo                   did you mean 'sapo'
study run nofile.toml             nofile.toml
""",
    "files, folders and other systems": """
up --path file.txt                --path: |is a file; name a folder
status --path file.txt            is a file; name a folder
web --path file.txt --export x    is a file; name a folder
experiment list --path file.txt   is a file; name a folder
doctor --path file.txt            is a file; name a folder
node --path file.txt              is a file; name a folder
join file.txt                     is a file; name a folder
invite file.txt                   is a file; name a folder
up --path 'C:\\Users\\me\\runs'       is a path of Windows
status --path D:/runs             is a path of Windows
up --mirror same --path same      --mirror: expected another place
up --mirror ./same --path same --dry-run  --mirror: expected another place
up --model ./nowhere --experiment new     no folder is at
up --model file.txt --experiment new      is a file
plan --model ./nowhere         no folder is at
plan --model file.txt          is a file
summary --plot /nosuch/x.png      there is no folder /nosuch
summary --plot reward             .png or .svg
web --export /nosuch/x.html       there is no folder /nosuch
export exp -o /nosuch/t.csv       there is no folder /nosuch
experiment archive exp -o /nosuch/e.tar.gz  there is no folder /nosuch
model export alice -o /nosuch/m   there is no folder /nosuch
bugreport --write /nosuch/r.txt   there is no folder /nosuch
experiment restore nofile.tar.gz  there is no file nofile.tar.gz
experiment restore file.txt       nothing was restored
up --config file.txt              line 1, column 6
settings --config file.txt        line 1, column 6
task try nofile.py                swarm task new
copy . s3://                      s3://BUCKET/PREFIX
""",
    "words, numbers and quotes": """
status exp                        --experiment exp
status exp extra                  --experiment exp
logs exp                          --experiment exp
inspect exp                       --experiment exp
validate exp                      --experiment exp
web exp                           --experiment exp
top exp                           --experiment exp
down exp                          --experiment exp
doctor exp                        --experiment exp
up nodes 4                        --nodes
up --nodes 4 rounds 10            --rounds
up -nodes 4                       -nodes
up --nodes                        --nodes requires an argument
up --experiment                   --experiment requires an argument
up --experiment “demo”            it has '“' in it
up --experiment demo/one          it has '/' in it
up --rounds 1,000                 --rounds|1,000
up --learning-rate 1,5            --learning-rate|1,5
up --round-interval 1h            --round-interval|1h
up --checkpoint-interval never    --checkpoint-interval|never
up --tasks 'basic_arithmetic;bf'  basic_arithmetic, arc_1d
up --against local                external=0,local=8
node --role Worker                did you mean 'worker'
node --role anna                  worker, generator
logs --since 5                    90s, 10m
logs --since 5 minutes            minutes
logs --level WARN                 "warning"
inspect --round -1                --round
inspect --round 0-2               --round|0-2
export exp --format xls           "csv", "parquet"
export exp exp                    exp
experiment show exp               swarm status
experiment restore                requires an argument
copy exp                          requires an argument
model export nobody               'nobody'
model push alice                  USER/NAME
model push alice --repo nowhere   USER/NAME
model push alice --repo a/b --follow --rounds 3   --follow|--rounds
model build out --names nosuch    tiny-2-qwen2
task new 'my task'                letters, digits
task new ../x                     letters, digits
settings seed=7                   did you mean 'seed'
completion powershell             "bash"
study run                         requires an argument
study run sapo --seeds one        --seeds
study run file.txt                ends in .toml
study report nosuch               swarm study run
study compare exp                 requires an argument
study compare exp nosuch          'nosuch'
sink run tensorbord               tensorboard, trackio
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


def test_the_table_has_at_least_250_rows() -> None:
    assert len({row.id for row in ROWS}) >= 250


@pytest.mark.parametrize(
    ("model", "wanted"),
    [("tiny-2-qwen", "did you mean 'tiny-2-qwen2'"), ("./there", "is not a model folder: it has no config.json")],
)
def test_a_model_that_is_none_is_refused_with_the_one_that_was_meant(
    model: str, wanted: str, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["plan", "--model", model]) != 0
    assert wanted in capsys.readouterr().err
