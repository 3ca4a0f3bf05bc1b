"""The `swarm` command: its table of commands, and what each way of ending means to the shell.

Exit codes: 0 done, 1 failed, 2 wrong usage or configuration, 3 a node that missed all rounds, 130 ended by Ctrl-C,
143 by SIGTERM.

A word that is none of these may be a plugin's:

    entry point in `swarm.commands` ─▶ a module ─┬ COMMANDS   words -> Command
                                                 └ GROUPS     first word -> what its help says (optional)

Commands are listed by name and imported when called, so that those that only look stay quick: they never import
torch, transformers or numpy.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from typing import get_args

from cyclopts import (
    App,
    ArgumentCollection,
    CoercionError,
    CycloptsError,
    Group,
    Parameter,
    UnknownOptionError,
    UnusedCliTokensError,
)

from swarm import __version__, entry_points
from swarm.cli.command import Command
from swarm.cli.help import ALL, LAYERS, further
from swarm.cli.say import painted, say, say_in_any_encoding, warn
from swarm.entry_points import DanglingError, EntryPoint, load
from swarm.errors import SwarmError
from swarm.harmless import printable


def _default_shown(value: object) -> str | None:
    """Returns a default as the help shows it; None for a switch that is off, or where the help says what happens."""
    return None if value is None or value is False or value == () else str(value)


def _refuse_fractions(_app: App, _words: tuple[str, ...], arguments: ArgumentCollection) -> None:
    """Refuse 2.5 where a whole number is wanted: cyclopts would round it.

    Raises:
        CoercionError: as for a word that is no number.
    """
    for argument in arguments:
        kinds = {argument.hint, *get_args(argument.hint)}
        for token in argument.tokens if int in kinds and float not in kinds else ():
            if "." in token.value:
                raise CoercionError(argument=argument, token=token, target_type=int)


app = App(
    name="swarm",
    config=_refuse_fractions,
    version=__version__,
    help_flags=("--help", "-h", ALL),
    group_commands=Group("Flags", sort_key=100),
    help_formatter=LAYERS,
    default_parameter=Parameter(negative=(), show_default=_default_shown),
    suppress_keyboard_interrupt=False,  # run() turns it into an exit code
    help="Post-train small language models together, through nothing but a shared folder (SAPO).",
    help_epilogue="`swarm COMMAND --help` shows a command's flags and an example. Errors: docs/errors.md.",
)
WANTED = {
    "Run a swarm": ("up", "join", "down"),
    "Watch it": ("web", "status", "logs", "inspect", "summary"),
    "Repair it": ("doctor", "validate"),
    "Prepare": ("settings", "plan", "task"),
}
"""What people want -> the commands that the first layer of the help shows for it."""
_WANTS = {want: Group(want, sort_key=number) for number, want in enumerate(WANTED, 1)}
_PANELS = {word: _WANTS[want] for want, words in WANTED.items() for word in words}
_PLACES = {word: place for place, word in enumerate(_PANELS)}
_OTHERS = further("Other commands", len(WANTED) + 1)
_GROUPS = {
    "model": "Take trained models out of a run, and build the embedded ones.",
    "experiment": "Look after the experiments of a shared folder.",
    "task": "Write, try and list your own questions and rewards.",
    "keys": "Sign what nodes publish, and know who signed what they read.",
    "judge": "Ask nodes held-out questions.",
}

COMMANDS = {
    "up": Command(
        "up:up",
        "Start a local swarm: a coordinator and workers over one folder.",
        "--nodes 4 --rounds 40 --experiment demo",
    ),
    "down": Command("processes:down", "End a local swarm, also one whose `swarm up` was killed.", "--experiment demo"),
    "plan": Command("plan:plan", "Predict the memory of a swarm, and say whether it fits.", "--nodes 8"),
    "node": Command(
        "node:node",
        "Run one node, a worker or the coordinator, or several workers in one process.",
        "--role coordinator --path /mnt/shared --experiment demo --rounds 40",
    ),
    "join": Command(
        "node:join", "Join an experiment as a worker, with what it says of itself.", "/mnt/shared --node-id anna"
    ),
    "status": Command("status:status", "Show the round and every node of an experiment.", "--watch --experiment demo"),
    "logs": Command(
        "logs:logs",
        "Show the events of all nodes in order, and follow them.",
        "-f --since 10m --event 'round.*' --node worker-0",
    ),
    "inspect": Command(
        "inspect:inspect",
        "Show what nodes answered: questions, completions, rewards, and who learnt from them.",
        "--round 12 --node worker-0 --task 'binary*'",
    ),
    "web": Command("web:web", "Show a run as a page in the browser, live, or frozen into a file.", "--experiment demo"),
    "summary": Command("summary:summary", "Show what an experiment learned, and plot it.", "--plot reward.png"),
    "validate": Command(
        "validate:validate", "Check the folder of a run; exit 1 if it is not whole.", "--experiment demo --rounds 40"
    ),
    "doctor": Command(
        "doctor:doctor", "Find what would hurt a swarm in this folder, and how to fix it.", "--path /mnt/shared"
    ),
    "ask": Command(
        "ask:ask", "Ask a model one question, and see prompt, answer and score.", "--model tiny-2-qwen2 --task bf"
    ),
    "probe": Command(
        "ask:probe", "Measure what a model can do of each task, and what to train on.", "--model tiny-2-qwen2"
    ),
    "settings": Command(
        "settings:settings", "Show every setting, its value and where it came from.", "learning_rate --preset paper"
    ),
    "export": Command(
        "export:export", "Write the records of an experiment or study as tables.", "demo --table events -o events.csv"
    ),
    "copy": Command(
        "copying:copy",
        "Copy an experiment into another place, a folder or a bucket, once or as it grows.",
        "/content/swarm s3://lab/swarm --experiment demo --follow",
    ),
    "model export": Command(
        "model_export:export",
        "Copy a node's model out of its checkpoint, with a card that says what it was trained on.",
        "anna --experiment demo -o anna",
    ),
    "experiment list": Command(
        "experiment:list_experiments", "Show all of them, and how far they are.", "--path /mnt/shared"
    ),
    "experiment prune": Command(
        "experiment:prune", "Move rollouts of old rounds to the archive.", "demo --keep 10 --yes"
    ),
    "experiment clean": Command("experiment:clean", "Delete one, or parts of it.", "demo --rollouts --yes"),
    "task new": Command("task:new", "Write a task of your own that works as it is.", "riddles"),
    "task try": Command(
        "task:try_task", "Ask a task, score answers to it, and say what is wrong with it.", "riddles.py --answer 42"
    ),
    "task list": Command("task:list_tasks", "List the tasks that a run may ask.", "--config swarm.toml"),
    "keys new": Command("keys:new", "Make this user's key.", ""),
    "keys show": Command(
        "keys:show", "Show its public half, or the keys that nodes were first seen with.", "--known --experiment demo"
    ),
    "keys forget": Command("keys:forget", "Hold a node to no key until it is seen again.", "anna --experiment demo"),
    "judge run": Command("judge:run", "Ask every node a held-out question each round.", "--experiment demo"),
    "judge exam": Command(
        "judge:exam", "Examine trained models on a frozen set of questions.", "--experiment demo --questions 32"
    ),
}
"""Words -> the command that they name."""

KIN = {
    **dict.fromkeys(("help", "-?", "--halp", "usage"), "swarm --help, or swarm COMMAND --help"),
    **dict.fromkeys(("version", "-v", "-V", "--verson", "-version"), "swarm --version"),
    **dict.fromkeys(("run", "start", "train", "launch", "init"), "swarm up"),
    **dict.fromkeys(("stop", "kill", "end"), "swarm down"),
    **dict.fromkeys(("list", "ls", "experiments"), "swarm experiment list"),
    **dict.fromkeys(("ps", "show", "info"), "swarm status"),
    **dict.fromkeys(("delete", "rm", "remove"), "swarm experiment clean NAME"),
    **dict.fromkeys(("tail", "log", "events"), "swarm logs -f"),
    **dict.fromkeys(("plot", "report", "results"), "swarm summary --plot reward.png"),
    **dict.fromkeys(("serve", "ui", "dashboard"), "swarm web"),
    **dict.fromkeys(("config", "env", "set"), "swarm settings"),
    **dict.fromkeys(("compare",), "swarm up --against alone, or swarm study compare A B"),
    "background": "setsid swarm COMMAND >> swarm.log 2>&1 &",
    **dict.fromkeys(("-n", "--workers", "--num-nodes"), "--nodes"),
    **dict.fromkeys(("--lr", "--learningrate"), "--learning-rate"),
    **dict.fromkeys(("--epochs", "--steps", "--iterations", "--max-rounds"), "--rounds"),
    **dict.fromkeys(("--name", "-e", "--exp", "--run"), "--experiment, or --node-id of a node"),
    **dict.fromkeys(("-m", "--model-name"), "--model"),
    **dict.fromkeys(("-p", "--folder", "--dir", "--output-dir"), "--path"),
    **dict.fromkeys(("--dataset", "--data"), "--tasks"),
    **dict.fromkeys(("--gpu", "--cuda"), "--device cuda"),
    **dict.fromkeys(("--quiet", "-q", "--verbose"), "--log-level warning, or debug"),
}
"""Words that other programs know for what is called otherwise here -> what to type."""

KNOWN: dict[str, Command] = {}
"""Words -> the command that they name, those of plugins included that were looked up."""
_groups: dict[str, App] = {}
_looked: set[str] = set()


def _add(groups: Mapping[str, str], commands: Mapping[str, Command], room: str = "") -> None:
    """Add commands to the app, whose functions lie below a package."""
    for name, text in groups.items():
        _groups[name] = App(
            name=name,
            help=text,
            group=_PANELS.get(name, _OTHERS),
            group_commands="Commands",
            help_flags=app.help_flags,
            sort_key=_PLACES.get(name),
        )
        app.command(_groups[name])
    for words, command in commands.items():
        group, _, name = words.rpartition(" ")
        _groups.get(group, app).command(
            f"{room}{command.function}",
            name=name,
            group=None if group else _PANELS.get(name, _OTHERS),
            sort_key=None if group else _PLACES.get(name),
            help=command.help,
            help_epilogue=f"Example: `{f'swarm {words} {command.example}'.strip()}`",
        )
    KNOWN.update(commands)


_add(_GROUPS, COMMANDS, "swarm.cli.")


def add_plugins(arguments: Sequence[str]) -> None:
    """Add the commands of plugins where these words are none that is known: first of ours, then of anybody's.

    Looking them up takes longer than most of the core's commands that only look take to start.
    """
    for look in (entry_points.bundled, entry_points.found):
        if not _is_known(arguments):
            for name, entry in look(entry_points.COMMANDS).items():
                if name not in _looked:
                    _looked.add(name)
                    _add_plugin(entry)


def _add_plugin(entry: EntryPoint) -> None:
    """Add the commands of a plugin. What cannot be had, or wants words that another command or group has, is said."""
    try:
        module = load(entry)
        named = {str(words): Command(*command) for words, command in module.COMMANDS.items()}
        texts = dict(getattr(module, "GROUPS", {}))
    except DanglingError as error:
        warn(str(error))
        return
    except (AttributeError, TypeError, ValueError) as error:
        warn(f"{entry.value} of {entry.distribution} has no table of commands: {error}")
        return
    for words, command in named.items():
        first, _, rest = words.partition(" ")
        if words in KNOWN or " " in rest or first in (KNOWN if rest else _groups):
            warn(f"`swarm {words}` of {entry.distribution} is left out: other commands have these words")
            continue
        _add({first: texts.get(first, "")} if rest and first not in _groups else {}, {words: command})


def _meant_by(word: str, arguments: Sequence[str]) -> str:
    """Returns what to type for a word that no argument of a command takes."""
    from swarm.cli.flags import SETTING_OF_FLAG  # here: most commands need it later, or never

    if word.replace("-", "_") in {"nodes", *SETTING_OF_FLAG}:
        return f"a flag begins with two hyphens: --{word.replace('_', '-')}"
    command = next((" ".join(arguments[:n]) for n in (2, 1) if " ".join(arguments[:n]) in KNOWN), "COMMAND")
    return f"an experiment is named by --experiment {shlex.quote(word)}; `swarm {command} --help` shows all flags"


def _is_known(arguments: Sequence[str]) -> bool:
    """Whether a command line begins with the words of a command, or asks for the version alone."""
    return list(arguments[:1]) == ["--version"] or any(" ".join(arguments[:words]) in KNOWN for words in (1, 2))


def main() -> None:
    raise SystemExit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit code. Errors made on purpose are said in one line with
    their code, without traceback."""
    say_in_any_encoding()
    code: object = 0
    LAYERS.ask(shows_all=ALL in arguments)
    try:
        add_plugins(arguments)
        code = app(arguments, exit_on_error=False, result_action="return_value")
        if LAYERS.left_out:
            say(f"\n{LAYERS.left_out} more: {ALL}")
        sys.stdout.flush()
    except CycloptsError as error:  # cyclopts has said what is wrong
        strange = arguments if isinstance(error, UnknownOptionError) else () if _is_known(arguments) else arguments[:2]
        for word in filter(KIN.__contains__, strange):
            warn(f"for {word} type {KIN[word]}")
        if isinstance(error, UnusedCliTokensError) and error.unused_tokens:
            warn(_meant_by(error.unused_tokens[0], arguments))
        if not _is_known(arguments) and (names := entry_points.unregistered()):
            warn(f"{', '.join(names)}: not registered since swarm was updated; install it again, as you installed it")
        return 2
    except SwarmError as error:
        said = "\n".join(map(printable, str(error).split("\n")))  # it may quote what lies in the folder
        print(painted(f"swarm: {said} [{error.code}]", sys.stderr), file=sys.stderr)  # noqa: T201 - the command's own voice
        return error.exit_code
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # the reader, such as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return code if isinstance(code, int) else 0
