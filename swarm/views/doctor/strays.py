"""What lies in the experiment's folder and should not, and what takes up the space."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from swarm.views.doctor.check_context import CheckContext
from swarm.views.doctor.finding import Area, Finding
from swarm.views.doctor.sizes import size
from swarm.views.doctor.survey import MOST_ENTRIES, Survey
from swarm.views.text import shorten

AREA = Area("files")
SHOWN = 3
KEPT = 2**20
"""Bytes of half-written files that nobody need mind."""


def check(context: CheckContext) -> Iterator[Finding]:
    """The survey."""
    if context.there:
        alive = {name for name, watch in context.watched.nodes.items() if watch.alive}
        yield from judge(context.survey, alive)


def judge(survey: Survey, alive: set[str]) -> Iterator[Finding]:
    """What the survey found, as findings.

    Args:
        alive: nodes whose half-written files are their own business.
    """
    yield _none_of("links", survey.links, "delete them: nodes refuse links, and watchers follow them into other trees")
    yield _none_of(
        "pipes and devices", survey.no_files, "delete them: they are nobody's data, and may block other readers"
    )
    yield _none_of(
        "sparse files", survey.sparse, "delete them: they claim what they do not have, and fill a copy's disk"
    )
    fix = "delete them; let one process alone write each file, and one tool alone replicate the folder"
    yield _none_of("conflict copies", survey.conflicts, fix)
    yield _none_of(
        "names not in UTF-8", survey.not_text, "delete them (ls -b shows them): one of them stops a file watcher"
    )
    yield _none_of("unreadable folders", survey.unreadable, "chmod u+rwx them, or run as the user who owns them")
    yield _temporary(survey, alive)
    yield _use(survey)


def _none_of(check: str, found: Sequence[str], fix: str) -> Finding:
    if not found:
        return AREA.ok(check, "none")
    more = f" and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
    named = ", ".join(shorten(name, 100) for name in sorted(found)[:SHOWN])
    return AREA.warning(check, f"{len(found)}: {named}{more}", fix)


def _temporary(survey: Survey, alive: set[str]) -> Finding:
    left = {node: taken for node, taken in survey.temporary_by_node.items() if node not in alive}
    total = sum(left.values())
    if total <= KEPT:
        return AREA.ok("half-written files", f"{size(total)} of nodes that do not run")
    names = sorted(left, key=lambda node: -left[node])[:SHOWN]
    named = ", ".join(f"{shorten(node, 40)} {size(left[node])}" for node in names)
    return AREA.warning(
        "half-written files", f"{size(total)} left: {named}", "delete .tmp/{node} of nodes that stay away"
    )


def _use(survey: Survey) -> Finding:
    parts = ", ".join(f"{part} {size(taken)}" for part, taken in survey.bytes_by_part.most_common())
    number = sum(survey.files_by_part.values())
    measured = f"{size(sum(survey.bytes_by_part.values()))} in {number} files{': ' if parts else ''}{parts}"
    if survey.complete:
        return AREA.ok("disk use", measured)
    fix = "clean up with `swarm experiment clean`: every node lists these folders again and again"
    return AREA.warning("disk use", f"more than {MOST_ENTRIES} entries; of the first ones: {measured}", fix)
