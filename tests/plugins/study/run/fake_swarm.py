"""A program in the place of `swarm up`: leaves what a run leaves, within milliseconds.

It appends its experiment's name to {path}/starts, then does as the file {path}/fate/{experiment} says: `fail`: exit 1
after a round; `hold`: wait in round 1 until it is asked to stop, then save; `loss`: the same, but save nothing;
`gone`: say that two updates could not be redone, and do all rounds; `closed`: end before anything; `judged`: wait in
round 1 until a judge has said that it is there. Without that file it does all its rounds.
"""

import json
import os
import signal
import sys
import time
from pathlib import Path

PATH, NAME = Path(os.environ["GDRIVE_PATH"]), os.environ["EXPERIMENT_NAME"]
ROOT = PATH / "experiments" / NAME
ROUNDS, SEED = int(os.environ["MAX_ROUNDS"]), int(os.environ["SEED"])


def write(file: Path, content: dict[str, object]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    temporary = file.with_suffix(".tmp")
    temporary.write_text(json.dumps(content))
    temporary.rename(file)


def process_started_at() -> float:
    return float(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])


def register(status: str) -> None:
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    host = "/".join([os.uname().nodename, boot, os.readlink("/proc/self/ns/pid")])
    mine = {"host": host, "pid": os.getpid(), "process_started_at": process_started_at(), "status": status}
    write(ROOT / "peers" / "w.json", {"peer_id": "w", "registered_at": 1.0, "node_role": "worker", **mine})


def reach(round_: int) -> None:
    """The clock's step to a round; the round before has its row."""
    finished = round_ >= ROUNDS
    clock = {"round": round_, "stage": 0, "max_rounds": ROUNDS, "finished": finished, "experiment_name": NAME}
    write(ROOT / "state" / "current_state.json", {**clock, "created_at": 1.0, "updated_at": 2.0, "updated_by": "c"})
    if round_:
        row = {"timestamp": 1.0, "round": round_ - 1, "stage": 0, "node_id": "w", "my_reward": SEED / 10}
        (ROOT / "logs" / "w").mkdir(parents=True, exist_ok=True)
        with (ROOT / "logs" / "w" / "metrics.jsonl").open("a") as file:
            file.write(json.dumps({**row, "experiment": NAME, "total_agents": 1}) + "\n")


def rounds_done() -> int:
    return len(_read(ROOT / "logs" / "w" / "metrics.jsonl").splitlines())


def tell(event: str, **values: object) -> None:
    (ROOT / "logs" / "w").mkdir(parents=True, exist_ok=True)
    with (ROOT / "logs" / "w" / "training_events.jsonl").open("a") as file:
        file.write(json.dumps({"timestamp": 1.0, "event": event, "level": "warning", **values}) + "\n")


def save(round_: int) -> None:
    (ROOT / "checkpoints" / f"round_{round_}" / "w").mkdir(parents=True, exist_ok=True)


def _read(file: Path) -> str:
    return file.read_text() if file.exists() else ""


def main() -> int:
    assert sys.argv[1:] == ["up", "--in-process", "--nodes", os.environ["SWARM_EXPECTED_WORKERS"]], sys.argv
    fate_file = PATH / "fate" / NAME
    fate = fate_file.read_text() if fate_file.exists() else "finish"
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    with (PATH / "starts").open("a") as file:
        file.write(f"{NAME}\n")
    if fate == "closed":
        return 1
    register("active")
    if fate == "gone":
        tell("rounds.lost", count=2)
    reach(rounds_done() + 1)
    sys.stdout.write("one round is done\n")
    if fate == "fail":
        return 1
    if fate in ("hold", "loss"):
        signal.sigwait([signal.SIGTERM])
        if fate == "hold":
            save(1)
            register("stopped")
        return 143
    while fate == "judged" and NAME not in _read(PATH / "judged"):
        time.sleep(0.01)
    for round_ in range(2, ROUNDS + 1):
        reach(round_)
    save(ROUNDS)
    register("stopped")
    return 0


if __name__ == "__main__":
    sys.exit(main())
