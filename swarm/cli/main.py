"""The `swarm` command: what there is, and what each way of ending means to the shell.

Exit codes: 0 done, 1 failed, 2 wrong usage or configuration, 130 ended by Ctrl-C, 143 by SIGTERM.

Commands are registered by name and imported when called, so that those that only look stay quick: they never import
torch, transformers or numpy.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from cyclopts import App, CycloptsError, Parameter

from swarm import __version__
from swarm.errors import SwarmError
from swarm.views.text import printable

app = App(
    name="swarm",
    version=__version__,
    default_parameter=Parameter(negative=(), show_default=False),
    suppress_keyboard_interrupt=False,  # run() turns it into an exit code
    help="Post-train small language models together, through nothing but a shared folder (SAPO).",
)
app.command("swarm.cli.up:up", name="up", help="Start a local swarm: a coordinator and workers over one folder.")
app.command("swarm.cli.plan:plan", name="plan", help="Predict the memory of a swarm, and say whether it fits.")
app.command("swarm.cli.node:node", name="node", help="Run one node, a worker or the coordinator, until it is done.")
app.command("swarm.cli.workers:workers", name="workers", help="Run several workers in one process until they are done.")
app.command("swarm.cli.status:status", name="status", help="Show the round and every node of an experiment.")
app.command("swarm.cli.logs:logs", name="logs", help="Show the events of all nodes in order, and follow them.")
app.command("swarm.cli.summary:summary", name="summary", help="Show what an experiment learned, and plot it.")
app.command(
    "swarm.cli.validate:validate", name="validate", help="Check the folder of a run; exit 1 if it is not whole."
)
app.command(
    "swarm.cli.doctor:doctor", name="doctor", help="Find what would hurt a swarm in this folder, and how to fix it."
)
app.command(
    "swarm.cli.settings:settings", name="settings", help="List every setting, its value and where it came from."
)

model_app = App(name="model", help="Work with the embedded models.")
model_app.command("swarm.cli.model:build", name="build", help="Train the embedded tiny models anew.")
app.command(model_app)

study_app = App(name="study", help="Run matrices of swarms, and see what they show.")
study_app.command("swarm.cli.study:run", name="run", help="Run a matrix of swarms, or go on with it.")
study_app.command("swarm.cli.study_list:list_studies", name="list", help="Show the studies and how far they are.")
study_app.command(
    "swarm.cli.study_report:report", name="report", help="Write what a study shows: a page, figures, tables."
)
study_app.command("swarm.cli.study_report:compare", name="compare", help="Compare two experiments or studies.")
app.command(study_app)

experiment_app = App(name="experiment", help="Look after the experiments of a shared folder.")
experiment_app.command(
    "swarm.cli.experiment:list_experiments", name="list", help="Show all of them, and how far they are."
)
experiment_app.command("swarm.cli.status:status", name="status", help="Show the round and every node of one.")
experiment_app.command("swarm.cli.experiment:clean", name="clean", help="Delete one, or parts of it.")
app.command(experiment_app)

keys_app = App(name="keys", help="Sign what nodes publish, and know who signed what they read.")
keys_app.command("swarm.cli.keys:new", name="new", help="Make this user's key.")
keys_app.command("swarm.cli.keys:show", name="show", help="Show its public half.")
keys_app.command("swarm.cli.keys:known", name="known", help="List the keys that nodes were first seen with.")
keys_app.command("swarm.cli.keys:forget", name="forget", help="Hold a node to no key until it is seen again.")
app.command(keys_app)

judge_app = App(name="judge", help="Ask nodes held-out questions.")
judge_app.command("swarm.cli.judge:run", name="run", help="Ask every node a held-out question each round.")
judge_app.command("swarm.cli.exam:exam", name="exam", help="Examine trained models on a frozen set of questions.")
app.command(judge_app)
app.command("swarm.cli.export:export", name="export", help="Write the records of an experiment or study as tables.")


def main() -> None:
    """Entry point of the `swarm` command."""
    raise SystemExit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit code. Errors made on purpose are said in one line, without traceback."""
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
