"""Removes what stands in the way of a writer at a key of its own, so that no object in the wrong place stops a node.

    folder                      renamed into the writer's drafts, and removed there
    link, pipe, socket, device  unlinked, never followed
    file with another name too  a copy of its own takes its place: what is written to it must not end up elsewhere
    file that is not ours and cannot be opened   renamed aside: `{name}.aside-*`
    file of ours that was closed to us           opened to us again, with what is in it
    folder above it that was closed to us        the same, where only nodes make such folders; another's: renamed aside

Never at the top of an experiment (`rollouts`, `logs` ...): what stands there may be the user's own, and is refused.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import uuid

from swarm.store.folder.beneath import Within, aside, make_folder, opened_folder, remove_tree, tell_of_obstacle

IN_THE_WAY = (errno.EISDIR, errno.ENOTDIR, errno.ENOTEMPTY, errno.EEXIST, errno.ELOOP, errno.ENXIO, errno.EMLINK)
"""What the system says where something else stands than what is to be written; EMLINK: open_to_append."""
MOST_COPIED = 1 << 30
"""Bytes of a file that is copied to get one of its own; a log of 100,000 rounds has some 200 MB."""
_MOST_REMOVED = 10_000
"""Names of a folder that are removed at once; the rest goes when the writer starts again."""
_PIECE = 1 << 20
_OURS = stat.S_IRUSR | stat.S_IWUSR


def may_clear(place: Within) -> bool:
    """Tells whether what stands at a place of the writer's own may go."""
    return len(place.names) > 1


def clear(place: Within, drafts: Within) -> None:
    """Make room for a file or bundle, if something else than a usable file stands there. Raises OSError."""
    with contextlib.suppress(FileNotFoundError), opened_folder(place.parent) as folder:
        found = os.stat(place.name, dir_fd=folder, follow_symlinks=False)
        if stat.S_ISDIR(found.st_mode):
            _clear_folder(place, drafts)
        elif not stat.S_ISREG(found.st_mode):
            os.unlink(place.name, dir_fd=folder)
        elif found.st_nlink > 1 and found.st_size <= MOST_COPIED:
            _make_own(place.name, folder, drafts)
        elif found.st_nlink > 1 or found.st_uid != os.geteuid():
            os.rename(place.name, aside(place.name), src_dir_fd=folder, dst_dir_fd=folder)
        elif found.st_mode & _OURS != _OURS:
            os.chmod(place.name, stat.S_IMODE(found.st_mode) | _OURS, dir_fd=folder)
        else:
            return
        tell_of_obstacle(place.path)


def clear_for_bundle(place: Within) -> None:
    """Make room for a bundle, if something else than a folder stands there. Raises OSError."""
    with contextlib.suppress(FileNotFoundError), opened_folder(place.parent) as folder:
        if not stat.S_ISDIR(os.stat(place.name, dir_fd=folder, follow_symlinks=False).st_mode):
            os.unlink(place.name, dir_fd=folder)
            tell_of_obstacle(place.path)


def _clear_folder(place: Within, drafts: Within) -> None:
    gone = drafts / f"obstacle-{uuid.uuid4().hex}"
    make_folder(drafts)
    with opened_folder(place.parent) as folder, opened_folder(drafts) as there:
        os.rename(place.name, gone.name, src_dir_fd=folder, dst_dir_fd=there)
    with contextlib.suppress(OSError):
        remove_tree(gone, most=_MOST_REMOVED)


def _make_own(name: str, folder: int, drafts: Within) -> None:
    """Copy a file, with its permissions, over its own name."""
    draft = f"{uuid.uuid4().hex}.tmp"
    source = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    with open(source, "rb") as old, opened_folder(drafts, []) as there:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with open(os.open(draft, flags, 0o600, dir_fd=there), "wb") as new:
            left = MOST_COPIED
            while left > 0 and (piece := old.read(min(_PIECE, left))):
                left -= len(piece)
                new.write(piece)
            new.flush()
            os.fchmod(new.fileno(), stat.S_IMODE(os.fstat(source).st_mode))
            os.fsync(new.fileno())
        os.rename(draft, name, src_dir_fd=there, dst_dir_fd=folder)
