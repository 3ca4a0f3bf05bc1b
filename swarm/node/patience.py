"""A shared folder that fails for a moment must not end a daemon of days."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import anyio
from anyio import to_thread

from swarm.errors import FolderError
from swarm.folder.publish import publish
from swarm.logs import get_logger

logger = get_logger(__name__)

PAUSES = (0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0)
"""Seconds between attempts: a minute in all, which a remount takes."""


async def publish_patiently(
    target: Path, data: bytes, temporary: Path, *, durable: bool = True, pauses: Sequence[float] = PAUSES
) -> None:
    """Publish in a thread, again and again while the folder refuses.

    Raises:
        FolderError: it still refuses after the last pause.
    """
    for pause in pauses:
        try:
            return await to_thread.run_sync(partial(publish, target, data, temporary, durable=durable))
        except FolderError as error:
            logger.warning("folder.write_failed", error=str(error), retry_in=pause)
        await anyio.sleep(pause)
    return await to_thread.run_sync(partial(publish, target, data, temporary, durable=durable))
