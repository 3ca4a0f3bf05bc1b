"""The `swarm` command: its table of commands, and what each way of ending means to the shell.

Exit codes: 0 done, 1 failed, 2 wrong usage or configuration, 130 ended by Ctrl-C, 143 by SIGTERM.

Commands are listed by name and imported when called, so that those that only look stay quick: they never import
torch, transformers or numpy.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from cyclopts import App, CycloptsError, Parameter

from swarm import __version__
from swarm.cli.say import say_in_any_encoding
from swarm.errors import SwarmError
from swarm.harmless import printable

app = App(
    name="swarm",
    version=__version__,
    default_parameter=Parameter(negative=(), show_default=False),
    suppress_keyboard_interrupt=False,  # run() turns it into an exit code
    help="Post-train small language models together, through nothing but a shared folder (SAPO).",
)
_GROUPS = {
    "model": "Work with the embedded models.",
    "study": "Run matrices of swarms, and see what they show.",
    "experiment": "Look after the experiments of a shared folder.",
    "keys": "Sign what nodes publish, and know who signed what they read.",
    "judge": "Ask nodes held-out questions.",
}
_COMMANDS = {
    "up": ("up:up", "Start a local swarm: a coordinator and workers over one folder."),
    "down": ("down:down", "End a local swarm, also one whose `swarm up` was killed."),
    "plan": ("plan:plan", "Predict the memory of a swarm, and say whether it fits."),
    "node": ("node:node", "Run one node, a worker or the coordinator, until it is done."),
    "join": ("node:join", "Join an experiment as a worker, with what it says of itself."),
    "workers": ("node:workers", "Run several workers in one process until they are done."),
    "status": ("looking:status", "Show the round and every node of an experiment."),
    "logs": ("looking:logs", "Show the events of all nodes in order, and follow them."),
    "summary": ("looking:summary", "Show what an experiment learned, and plot it."),
    "validate": ("looking:validate", "Check the folder of a run; exit 1 if it is not whole."),
    "doctor": ("doctor:doctor", "Find what would hurt a swarm in this folder, and how to fix it."),
    "settings": ("settings:settings", "List every setting, its value and where it came from."),
    "export": ("export:export", "Write the records of an experiment or study as tables."),
    "model build": ("model:build", "Train the embedded tiny models anew."),
    "study run": ("study:run", "Run a matrix of swarms, or go on with it."),
    "study list": ("studies:list_studies", "Show the studies and how far they are."),
    "study report": ("studies:report", "Write what a study shows: a page, figures, tables."),
    "study compare": ("studies:compare", "Compare two experiments or studies."),
    "experiment list": ("experiment:list_experiments", "Show all of them, and how far they are."),
    "experiment status": ("experiment:show_status", "Show the round and every node of one."),
    "experiment import": ("importing:import_experiment", "Take over one that rl-swarm made, to read."),
    "experiment settings": ("experiment:show_settings", "Show what its nodes were started with."),
    "experiment clean": ("experiment:clean", "Delete one, or parts of it."),
    "keys new": ("keys:new", "Make this user's key."),
    "keys show": ("keys:show", "Show its public half."),
    "keys known": ("keys:known", "List the keys that nodes were first seen with."),
    "keys forget": ("keys:forget", "Hold a node to no key until it is seen again."),
    "judge run": ("judge:run", "Ask every node a held-out question each round."),
    "judge exam": ("exam:exam", "Examine trained models on a frozen set of questions."),
}
"""Words -> function below swarm.cli, and what it does."""

_groups = {name: App(name=name, help=text) for name, text in _GROUPS.items()}
for _words, (_function, _help) in _COMMANDS.items():
    _group, _, _name = _words.rpartition(" ")
    _groups.get(_group, app).command(f"swarm.cli.{_function}", name=_name, help=_help)
for _app in _groups.values():
    app.command(_app)


def main() -> None:
    """Entry point of the `swarm` command."""
    raise SystemExit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit code. Errors made on purpose are said in one line, without traceback."""
    say_in_any_encoding()
    code: object = 0
    try:
        code = app(arguments, exit_on_error=False, result_action="return_value")
        sys.stdout.flush()
    except CycloptsError:  # cyclopts has said what is wrong
        return 2
    except SwarmError as error:
        said = "\n".join(map(printable, str(error).split("\n")))  # it may quote what lies in the folder
        print(f"swarm: {said}", file=sys.stderr)  # noqa: T201 - the command's own voice
        return error.exit_code
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # the reader, such as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return code if isinstance(code, int) else 0
