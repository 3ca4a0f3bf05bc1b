"""Says what to do about what the system says of a folder or file."""

from __future__ import annotations

import errno

_FULL = "free space there, or ask for a larger quota"
_MAY_NOT = "have its owner let this user read and write there (`ls -ld` shows whose it is; chmod, chown)"
_AWAY = "see that the shared folder is there, and mounted"
_IN_THE_WAY = "something else stands there: move it away"
_REMEDIES = {
    errno.ENOSPC: _FULL,
    errno.EDQUOT: _FULL,
    errno.EACCES: _MAY_NOT,
    errno.EPERM: _MAY_NOT,
    errno.EROFS: "have it mounted for writing",
    errno.ENOENT: _AWAY,
    errno.ESTALE: _AWAY,
    errno.ENOTCONN: _AWAY,
    errno.EIO: "see that the disk or the mount still works (`dmesg`)",
    errno.EMFILE: "let more files be open at once: `ulimit -n 4096` before the start",
    errno.ENFILE: "close other programs: the whole machine has no more open files",
    errno.EISDIR: _IN_THE_WAY,
    errno.ENOTDIR: _IN_THE_WAY,
    errno.ELOOP: _IN_THE_WAY,
    errno.ENOTEMPTY: _IN_THE_WAY,
    errno.EEXIST: _IN_THE_WAY,
}
NOT_THERE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG)
"""What the system says where nothing of that name can be."""


def remedy(error: OSError) -> str:
    """Returns what a person can do about an error of the system."""
    return _REMEDIES.get(error.errno or 0, "see that the folder is there, readable, writable and not full")
