"""Opens the shared place that people name: a folder, a bucket, a replicated folder, or what a plugin knows.

--path ─▶ open_place ─┬ FolderPlace       swarm.store.folder.place
                      ├ plugin syncthing  a folder with this machine's record of members
                      ├ BucketPlace       swarm.store.bucket.place
                      └ a plugin          a URL of its scheme, such as https://
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Protocol

from swarm import entry_points
from swarm.config.place import bucket_url, is_url, plugin_of
from swarm.store.folder.beneath import EXPERIMENTS as EXPERIMENTS
from swarm.store.shared_place import Place as Place

REPLICATED = "replicated.json"
"""At the top of a replicated folder: this machine's record of members."""


def open_place(path: Path | str) -> Place:
    """Returns the place that people name by --path; it need not be there yet.

    Raises:
        ConfigError: it is a URL that nobody here opens; or the extra for buckets is not installed.
    """
    if isinstance(path, str) and (plugin := plugin_of(path)):
        opened: Place = entry_points.needed(entry_points.PLACES, plugin, f"the shared place {path}").open_place(path)
        return opened
    if isinstance(path, str) and is_url(path):
        from swarm.store.bucket.place import BucketPlace  # here, for nobody else needs obstore

        return BucketPlace(bucket_url(path))
    if is_replicated(Path(path)):
        place: Place = replicated_places(f"the replicated folder {path}").open_place(Path(path))
        return place
    from swarm.store.folder.place import FolderPlace

    return FolderPlace(Path(path))


def is_replicated(path: Path) -> bool:
    """Returns whether a folder is one that `swarm invite` or `swarm join --invitation` made on this machine.

    Those hold no experiments beside the record, which in an ordinary shared folder anybody may put.
    """
    return os.path.isfile(path / REPLICATED) and not os.path.isdir(path / EXPERIMENTS)


def replicated_places(what: str) -> ReplicatedPlaces:
    """Returns the plugin that knows replicated folders.

    Args:
        what: needs it.

    Raises:
        ConfigError: it is not there.
    """
    found: ReplicatedPlaces = entry_points.needed(entry_points.PLACES, "syncthing", what)
    return found


class ReplicatedPlaces(Protocol):
    """The entry point `syncthing` in `swarm.places` is a module with these functions."""

    def open_place(self, path: Path) -> Place:
        """Returns a replicated folder as a place."""

    def become_member(self, place: str, invitation: str, own: str | None, address: tuple[str, ...]) -> None:
        """Make this machine a member of a replicated folder, by what `swarm invite` printed on another one.

        Args:
            own: its name there.
            address: where its Syncthing is reached; none: as it finds out.
        """
