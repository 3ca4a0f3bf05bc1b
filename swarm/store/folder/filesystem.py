"""The file system that a path lies on, and whether it tells of what other hosts write there.

inotify sees what passes through this kernel's own virtual file system, and nothing else (inotify(7), "Limitations": it
"reports only events that a user-space program triggers through the filesystem API", not "those that occur on network
filesystems"). So a change that another host makes, or a server, wakes nobody here, and has to be found by listing.
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

from swarm.store.base import Room
from swarm.store.health import FileSystem

UNKNOWN = "unknown"
MOUNT_TABLE = Path("/proc/self/mountinfo")
"""proc(5): this process's own view, so that containers and mount namespaces are told apart. Linux alone has it."""

WRITTEN_ELSEWHERE = {
    "nfs": "RFC 1813: a stateless protocol without a call from server to client",
    "nfs4": "RFC 8881, 18.39: GET_DIR_DELEGATION's notifications; fs/nfs of Linux passes none on to inotify",
    "cifs": "fs/smb/client of Linux: CHANGE_NOTIFY is an ioctl there, it feeds no inotify",
    "smb3": "the same client under its other name (mount.smb3(8))",
    "smbfs": "the client that cifs replaced; macOS's name for SMB",
    "9p": "fs/9p: the protocol has no notification; WSL2's drives of Windows and gVisor's folders come so",
    "afs": "fs/afs: call-backs drop cached data, and tell inotify nothing",
    "ceph": "fs/ceph: capabilities are revoked, and inotify is told nothing",
    "glusterfs": "a FUSE client (as fuse.glusterfs below) that some mount tables name so",
    "lustre": "Lustre manual, 'Changelogs': a command's business (lfs changelog), not inotify's",
    "gpfs": "IBM Storage Scale, 'Clustered watch folder': inotify sees this node's writes alone",
    "beegfs": "BeeGFS documentation, 'File system event monitoring': a service on the metadata server",
    "gfs2": "a disk that several hosts mount: fsnotify of each kernel knows of its own calls alone",
    "ocfs2": "the same",
    "orangefs": "fs/orangefs: no notification",
    "coda": "fs/coda: call-backs drop cached data only",
    "virtiofs": "virtiofsd: the host's inotify is not forwarded to the guest (QEMU issue tracker, feature request)",
    "vboxsf": "VirtualBox ticket 10660: no inotify events for what the host writes",
    "vmhgfs": "open-vm-tools: no notification from host to guest",
    "prl_fs": "Parallels' shared folders: no notification from host to guest",
    "drvfs": "WSL1's drives of Windows (microsoft/WSL issue 4739 for those of WSL2, which are 9p)",
    "fakeowner": "Docker Desktop's name for the folders that it shares from macOS",
}
"""Kinds whose files other hosts write unseen, with the source of that claim."""

OF_THE_KERNEL = frozenset(
    ("proc", "sysfs", "cgroup", "cgroup2", "devpts", "securityfs", "debugfs", "tracefs", "bpf", "configfs", "efivarfs")
)
"""Kinds that show what the system knows: nobody makes a folder of his own there, and their sizes say nothing."""

_FUSE = re.compile(r"fuse(\..*)?")
"""Any user-space file system: rclone, sshfs, s3fs, gcsfuse, Drive clients. Few of them call fuse_lowlevel_notify_*, and
those invalidate caches without an inotify event (libfuse, fuse_lowlevel.h). `fuseblk` is a local disk (ntfs-3g)."""
_ESCAPED = re.compile(rb"\\([0-7]{3})")


def filesystem_of(path: Path, mount_table: Path = MOUNT_TABLE) -> FileSystem:
    """Returns the file system that holds a path, or will hold it where it does not exist yet. Never raises."""
    try:
        mounts = parse_mounts(mount_table.read_bytes())
        place = path.expanduser().resolve()
    except (OSError, RuntimeError, ValueError):  # no table, a symlink loop, no home, a name with a NUL
        return FileSystem(UNKNOWN, "", True)
    holding = [(mount, kind) for mount, kind in mounts if place.is_relative_to(mount)]
    if not holding:
        return FileSystem(UNKNOWN, "", True)
    deepest = max(len(mount.parts) for mount, _ in holding)
    mount, kind = [entry for entry in holding if len(entry[0].parts) == deepest][-1]  # the last one lies on top
    return FileSystem(kind, str(mount), delivers_events(kind))


def room_at(path: Path) -> Room:
    """Returns how much may still be written at a folder. Raises OSError."""
    found, use = os.statvfs(path) if hasattr(os, "statvfs") else None, shutil.disk_usage(path)
    return Room(use.free, found.f_favail if found and found.f_files else None, use.free + use.used)


def delivers_events(kind: str) -> bool:
    """Tells whether inotify tells of what other hosts write on this kind of file system, as far as there are other
    hosts."""
    return kind not in WRITTEN_ELSEWHERE and not _FUSE.fullmatch(kind)


def parse_mounts(table: bytes) -> list[tuple[Path, str]]:
    """(mount point, kind) of every line of /proc/self/mountinfo, in its order; lines of another form are left out.

    `36 35 98:0 /root /mount/point rw,noatime master:1 - ext3 /dev/sda1 rw`: the fields before the lone hyphen vary in
    number; space, tab, newline and backslash in a path are written in octal.
    """
    found = []
    for line in table.splitlines():
        before, hyphen, after = line.partition(b" - ")
        fields, kinds = before.split(b" "), after.split(b" ")
        if hyphen and len(fields) >= 6:
            found.append((Path(_text(fields[4])), _text(kinds[0])))
    return found


def _text(field: bytes) -> str:
    unescaped = _ESCAPED.sub(lambda octal: bytes([int(octal[1], 8) & 0xFF]), field)
    return unescaped.decode("utf-8", "surrogateescape")
