"""Which files and functions of the product one node runs in two rounds.

    python -m benchmarks.route [--code CHECKOUT] [--external 4] [--list]

A coordinator and a second worker run as processes; the node that is watched runs in a process of its own, under
`sys.setprofile`, with the embedded model. All settings are the defaults, but for rounds, place and `--external`: with
the default, 0, a node takes no groups of its peers, and gathers and draws nothing. Counted is what is called from the
moment at which the node is ready until the last of its rounds is submitted; imports count for nothing. Files of
features that are off are named.
"""

from __future__ import annotations

import json
import os
import runpy
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from pathlib import Path
from types import CodeType, FrameType

from swarm.config import variable, without_settings

ROUNDS = 2
BEGINS, ENDS = "WorkerMachine._idle", "WorkerMachine._leave"
"""Functions of the product: the first call of the one, and of the other, are the node's being ready and its leaving."""
OFF = {
    "rounds of several stages": ("node/sharing/contexts.py", "tasks/revise.py", "config/revising.py"),
    "averaged weights": ("plugins/lab/averaging.py", "plugins/lab/averaging_machine.py"),
    "planted words": ("plugins/lab/planting.py",),
    "conversations": ("node/worker/conversing.py", "tasks/conversation.py"),
    "adaptive I and J": ("algo/adaptive_rule.py", "algo/adaptive.py"),
    "signatures": ("signing/",),
    "several nodes of one process": ("node/process/together.py",),
}
"""Features that are off at the defaults, and where they live below `swarm/`. Groups that come one by one and mixtures
are none: peers may have them, whatever this node has."""


def main() -> int:
    if sys.argv[1:2] == ["--inside"]:
        return _inside(*sys.argv[2:])
    from benchmarks.common import arguments_of, keep

    parser = arguments_of(__doc__)
    parser.add_argument("--code", type=Path, default=Path(__file__).parents[1], help="the checkout to look at")
    parser.add_argument("--external", type=int, default=4, help="J")
    parser.add_argument("--list", action="store_true", help="name every function")
    options = parser.parse_args()
    found = route(options.code.absolute(), options.external)
    _say(found, names=options.list)
    keep(f"route_J{options.external}", {"files": len(found), "functions": sum(map(len, found.values()))}, options)
    return 0


def route(code: Path, external: int) -> dict[str, list[str]]:
    """File below `swarm/` -> the functions of it that a node of this checkout runs in its rounds."""
    from benchmarks.processes import running

    with tempfile.TemporaryDirectory() as folder:
        settings = {"GDRIVE_PATH": folder, "EXPERIMENT_NAME": "route", "SWARM_EXPECTED_WORKERS": "2"}
        amounts = {"MAX_ROUNDS": str(ROUNDS), variable("external_groups"): str(external)}
        env = without_settings(os.environ) | settings | amounts | {"PYTHONPATH": str(code)}
        swarm, out = [sys.executable, "-P", "-m", "swarm", "node"], Path(folder, "route.json")
        watched = [sys.executable, "-P", __file__, "--inside", str(out)]
        with (
            Path(folder, "said").open("w") as said,
            running([*swarm, "--role", "coordinator"], env=env, stdout=said, stderr=said),
            running([*swarm, "--node-id", "other"], env=env, stdout=said, stderr=said),
        ):
            subprocess.run(watched, env=env | {"NODE_ID": "watched"}, check=True, stdout=said, stderr=said)
        found: dict[str, list[str]] = json.loads(out.read_text())
        return found


def _inside(out: str) -> int:
    """Run the node of the variables around it, and write what it called."""
    import swarm

    called, under, state, result = set[CodeType](), str(Path(swarm.__file__).parent), {"at": "before"}, 0

    def profile(frame: FrameType, event: str, _: object) -> None:
        if event != "call" or state["at"] == "after":
            return
        code = frame.f_code
        if code.co_qualname == BEGINS:
            state["at"] = "during"
        elif code.co_qualname == ENDS:
            state["at"] = "after"
        if state["at"] == "during" and code not in called and code.co_filename.startswith(under):
            called.add(code)

    threading.setprofile(profile)
    sys.setprofile(profile)
    sys.argv = ["swarm", "node"]
    try:
        runpy.run_module("swarm", run_name="__main__")
    except SystemExit as ended:
        result = int(ended.code or 0)
    sys.setprofile(None)
    found: dict[str, set[str]] = {}
    for code in called:
        name = code.co_qualname.replace(".<locals>", "")
        if "<" not in name:  # no module, no lambda, no comprehension
            found.setdefault(str(Path(code.co_filename).relative_to(under)), set()).add(name)
    Path(out).write_text(json.dumps({file: sorted(found[file]) for file in sorted(found)}))
    return result


def _say(found: dict[str, list[str]], *, names: bool) -> None:
    rooms = Counter(file.partition("/")[0] if "/" in file else "." for file in found)
    print(f"{len(found)} files, {sum(map(len, found.values()))} functions in {ROUNDS} rounds")
    print("by room: " + ", ".join(f"{room} {files}" for room, files in sorted(rooms.items())))
    for file in sorted(found):
        print(f"  {file}  {len(found[file])}" + (": " + ", ".join(found[file]) if names else ""))
    print("of features that are off:")
    for feature, files in OFF.items():
        if touched := [file for file in found if file.startswith(files)]:
            print(f"  {feature}: " + ", ".join(f"{file} ({', '.join(found[file])})" for file in touched))


if __name__ == "__main__":
    sys.exit(main())
