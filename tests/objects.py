"""Objects that a stranger may put in the place of a file, and bounds for who meets them."""

from __future__ import annotations

import os
import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.patience import PATIENCE

KINDS = ["folder", "link to a file", "link to /dev/zero", "fifo", "socket", "hard link", "sparse terabyte", "file"]


def put(kind: str, place: Path, outside: Path) -> None:
    """Put an object at a place, in that of whatever is there.

    Args:
        kind: one of KINDS.
        outside: a folder with a file `precious`, which links lead to; what was at the place goes there.
    """
    place.parent.mkdir(parents=True, exist_ok=True)
    if os.path.lexists(place):
        os.rename(place, outside / f"was-{len(list(outside.iterdir()))}")
    match kind:
        case "folder":
            (place / "below").mkdir(parents=True)
        case "link to a file":
            place.symlink_to(outside / "precious")
        case "link to /dev/zero":
            place.symlink_to("/dev/zero")
        case "fifo":
            os.mkfifo(place)
        case "socket":
            from tests.conformance.worlds import bind  # here, for programs that put anything else start without it

            bind(place)
        case "hard link":
            os.link(outside / "precious", place)
        case "sparse terabyte":
            place.touch()
            os.truncate(place, 1 << 40)
        case "file":
            place.write_bytes(b"junk\n")


class Hung(BaseException):
    """A call hung; nothing that handles errors handles this."""


@contextmanager
def bounded(most: int = 1 << 30) -> Iterator[None]:
    """No call in the block hangs, or takes more than `most` bytes of address space.

    Raises:
        Hung: it did.
    """

    def hung(number: int, frame: object) -> None:
        raise Hung

    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text().split()[0]) if Path("/proc/self/statm").exists() else 0
    if pages:
        resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + most, hard))
    before = signal.signal(signal.SIGALRM, hung)
    signal.alarm(int(PATIENCE))
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
