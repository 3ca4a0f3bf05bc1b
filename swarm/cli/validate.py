"""`swarm validate`: whether the folder of a run is whole."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from swarm.cli.flags import CommonFlags, open_experiment, settings_to_look
from swarm.cli.say import print_result
from swarm.views import validate as validate_view
from swarm.views.run_records import Expected


def validate(
    *,
    experiment_flags: CommonFlags | None = None,
    partial: bool = False,
    rounds: Annotated[int | None, Parameter(validator=Number(gte=1))] = None,
    nodes: Annotated[int | None, Parameter(validator=Number(gte=1))] = None,
    external: Annotated[int | None, Parameter(validator=Number(gte=0))] = None,
    as_json: Annotated[bool, Parameter("--json")] = False,
) -> int:
    """Check the folder of a run; exit 1 if it is not whole.

    It is held against what it has recorded of itself: its rounds and its workers.

    Args:
        experiment_flags: which experiment.
        partial: Accept a run that has not finished.
        rounds: It must have so many rounds, and every worker its row of the last one.
        nodes: It must have rows of just so many workers.
        external: Every row must want so many external groups, and every worker must have trained on some.
        as_json: JSON instead of text.
    """
    run = open_experiment(settings_to_look(experiment_flags))
    expected = Expected(rounds=rounds, nodes=nodes, external=external)
    report = validate_view.validate(run, partial=partial, expected=expected)
    print_result(report, validate_view.render, as_json=as_json)
    return 0 if report.ok else 1
