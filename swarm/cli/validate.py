"""`swarm validate`: is the folder of a run whole?"""

from __future__ import annotations

import os
import sys
from typing import Annotated

import msgspec
from cyclopts import Parameter

from swarm.cli.flags import CommonFlags, settings_from
from swarm.store.place import open_place
from swarm.views.validate import render
from swarm.views.validate import validate as check_run


def validate(
    *,
    common: CommonFlags | None = None,
    partial: bool = False,
    as_json: Annotated[bool, Parameter("--json")] = False,
) -> int:
    """Check the folder of a run; exit 1 if it is not whole.

    Args:
        common: which experiment.
        partial: Accept a run that has not finished.
        as_json: JSON instead of text.
    """
    settings = settings_from(common, os.environ)
    report = check_run(open_place(settings.shared_folder).open(settings.experiment), partial=partial)
    sys.stdout.write((msgspec.json.encode(report).decode() if as_json else render(report)) + "\n")
    return 0 if report.ok else 1
