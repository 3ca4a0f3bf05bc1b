"""`swarm keys`: the own key, those that others were first seen with, and the id that an experiment was begun with."""

from __future__ import annotations

from swarm.cli.flags import CommonFlags, settings_from, settings_to_look
from swarm.cli.say import say
from swarm.config import Settings
from swarm.errors import ConfigError
from swarm.extras import lacking
from swarm.signing.known_keys import KnownKeys
from swarm.store.place import open_place
from swarm.systems import require_for
from swarm.views.text import table
from swarm.wire.keys import COORDINATOR, is_node_id

EXPERIMENT = "@experiment"
"""Names the experiment itself among those of whom something is known."""


def new() -> None:
    """Make a key that this user's nodes sign with."""
    require_for("`swarm keys new`")
    _installed()
    from swarm.signing.keys import KEY_FILE, make_key, public_text

    folder = settings_from(CommonFlags()).private_folder
    key = make_key(folder)
    say(f"{folder / KEY_FILE}\npublic key: {public_text(key)}\nsign with it by SWARM_SIGNING=on, on every node")


def show(*, known: bool = False, experiment_flags: CommonFlags | None = None) -> None:
    """Show the public key of this user's nodes.

    Args:
        known: List the nodes of an experiment that were seen with a key instead, and the key that each is held to.
        experiment_flags: which experiment.
    """
    if known:
        _show_known(experiment_flags)
        return
    _installed()
    from swarm.signing.keys import load_key, public_text

    say(public_text(load_key(settings_from(experiment_flags).private_folder)))


def _show_known(experiment_flags: CommonFlags | None) -> None:
    settings = settings_to_look(experiment_flags)
    known_keys = _known(settings)
    keys = [(EXPERIMENT, id_) for id_ in known_keys.ids()[-1:]]
    keys += known_keys
    if not keys:
        open_place(settings.place).require(settings.experiment)
        say(f"no node of {settings.experiment} in {settings.place} was seen with a key")
        return
    say(table(("node", "public key"), keys, left=(0, 1)))


def forget(node: str, experiment_flags: CommonFlags | None = None) -> None:
    """Hold a node to no key until it is seen again: it has a new one, or a stranger came first.

    Args:
        node: Its id; @clock for whoever coordinates, @experiment for the id of the experiment: somebody has begun it
            anew.
    """
    settings = settings_to_look(experiment_flags)
    if node == EXPERIMENT and _known(settings).forget_ids():
        say(f"{settings.experiment} is no longer known; the next node that starts accepts the experiment that it finds")
        return
    if not (node == COORDINATOR or is_node_id(node)) or not _known(settings).forget(node):
        open_place(settings.place).require(settings.experiment)
        raise ConfigError(f"no key is known of {node!r} in {settings.experiment}; `swarm keys show --known` lists them")
    say(f"{node} will be held to the key that it is seen with next; nodes that are running learn of it when restarted")


def _known(settings: Settings) -> KnownKeys:
    return KnownKeys(settings.private_folder, settings.place, settings.experiment)


def _installed() -> None:
    try:
        import cryptography  # noqa: F401
    except ModuleNotFoundError:
        raise lacking("`swarm keys`", "cryptography", "signing") from None
