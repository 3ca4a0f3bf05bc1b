"""Names of nodes and experiments, which are names of files and folders on every system.

What others are called is only ever matched against NODE_ID and EXPERIMENT_NAME; a name of one's own keeps all rules.
"""

from __future__ import annotations

import re

NODE_ID = re.compile(r"(?!.*\.sync-conflict-)[A-Za-z0-9][A-Za-z0-9_.-]{0,63}(?<!\.)(?<!\.json)")
EXPERIMENT_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}(?<!\.)(?<!\.json)")
ENDS_LIKE_A_SLOT = re.compile(r"\.[0-9]+\Z")
"""End of an id of earlier versions that no node takes any more: `{node}.{slot}.json` is a file of one group."""
_DEVICE = re.compile(r"(con|prn|aux|nul|com[1-9]|lpt[1-9])(\..*)?", re.IGNORECASE)


def device_of_windows(name: str) -> str:
    """Returns the device that Windows and SMB open by this name, whatever stands behind its first dot; empty: none."""
    found = _DEVICE.fullmatch(name)
    return found[1].upper() if found else ""


def why_reserved(name: str) -> str:
    """Returns why nobody should begin anything of this name; empty: nothing speaks against it."""
    if device := device_of_windows(name):
        return f"{name!r} is the device {device} on Windows and SMB, where no file can have this name; choose another"
    return ""
