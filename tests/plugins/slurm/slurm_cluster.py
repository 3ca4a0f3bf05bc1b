"""A Slurm of one machine on loopback: munged, slurmctld and slurmd of Debian's packages, without its database.

    apt-get install --no-install-recommends slurmctld slurmd slurm-client munge

Everything is in one folder and on free ports, and goes with the block: nothing of the system's own Slurm is read.
"""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.engines.s3_servers import free_port
from tests.patience import PATIENCE

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "scancel", "scontrol", "srun")
PARTITION = "short"
CONF = """
ClusterName=loopback
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ctld_port}
SlurmdPort={slurmd_port}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket,cred_expire=5
CryptoType=crypto/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerType=sched/builtin
SchedulerParameters=sched_interval=1,batch_sched_delay=0,defer
JobCompType=jobcomp/none
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
ReturnToService=2
KillWait=10
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} State=UNKNOWN
PartitionName={partition} Nodes={host} Default=YES MaxTime=INFINITE State=UP OverSubscribe=FORCE:8
"""


_PATH = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/sbin"])
"""Where Debian has daemons."""


def missing() -> list[str]:
    """The programs that are not installed."""
    return [name for name in PROGRAMS if shutil.which(name, path=_PATH) is None]


@contextmanager
def slurm(folder: Path) -> Iterator[dict[str, str]]:
    """A cluster of this machine; the variables by which its commands find it."""
    for name in ("state", "spool"):
        (folder / name).mkdir()
    host = socket.gethostname().partition(".")[0]
    conf = folder / "slurm.conf"
    conf.write_text(
        CONF.format(
            folder=folder,
            host=host,
            user=pwd.getpwuid(os.getuid()).pw_name,
            ctld_port=free_port(),
            slurmd_port=free_port(),
            cpus=os.cpu_count(),
            partition=PARTITION,
        )
    )
    found = {"SLURM_CONF": str(conf), "PATH": _PATH}
    with ExitStack() as daemons:
        munge = daemons.enter_context(_daemon(folder, found, "munged", *_munge(folder)))
        wait_for(lambda: (folder / "munge.socket").exists(), munge)
        control = daemons.enter_context(_daemon(folder, found, "slurmctld", "-D", "-c"))
        daemons.enter_context(_daemon(folder, found, "slurmd", "-D", "-N", host))
        wait_for(lambda: "idle" in said(found, "sinfo", "-h", "-o", "%t"), control)
        yield found
        said(found, "scancel", "--signal=KILL", "--full", "--user", str(os.getuid()))
        wait_for(lambda: not said(found, "squeue", "-h"), control)


def said(found: dict[str, str], *command: str) -> str:
    """What a command of Slurm says; nothing where it fails."""
    done = subprocess.run(command, env={**os.environ, **found}, capture_output=True, text=True, check=False)
    return done.stdout if done.returncode == 0 else ""


def wait_for(condition: Callable[[], bool], process: subprocess.Popen[bytes] | None = None) -> None:
    """Until a condition holds, or a process that it needs has ended."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert process is None or process.poll() is None, f"{process.args!r} ended: {process.returncode}"
        assert time.monotonic() < deadline
        time.sleep(0.1)


def _munge(folder: Path) -> list[str]:
    (folder / "munge.key").write_bytes(os.urandom(1024))
    (folder / "munge.key").chmod(0o600)
    files = {"key-file": "munge.key", "socket": "munge.socket", "pid-file": "munge.pid", "seed-file": "munge.seed"}
    return ["--foreground", "--force", *(f"--{name}={folder / file}" for name, file in files.items())]


@contextmanager
def _daemon(folder: Path, found: dict[str, str], *command: str) -> Iterator[subprocess.Popen[bytes]]:
    with (folder / f"{command[0]}.out").open("wb") as out:
        process = subprocess.Popen(command, env={**os.environ, **found}, stdout=out, stderr=subprocess.STDOUT)
    try:
        yield process
    finally:
        process.terminate()
        process.wait()
