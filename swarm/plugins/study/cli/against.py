"""`swarm up --against`: a swarm as asked for beside one with other settings, as a study of two configurations.

AgainstRequest ─matrix_of─▶ Matrix ─carry_out─▶ runs, as of any study ─▶ two curves, and a sentence
"""

from __future__ import annotations

import re
from typing import Any

from swarm.cli.flags import SETTING_OF_FLAG
from swarm.cli.say import say
from swarm.config import Settings
from swarm.config.environment import VARIABLES
from swarm.config.settings import FIELDS
from swarm.config.sources import parse
from swarm.errors import ConfigError
from swarm.harmless import quoted
from swarm.plugins.study.analysis.significance import FEWEST_SEEDS
from swarm.plugins.study.cli.studies import need_analysis
from swarm.plugins.study.cli.study import as_begun_or_suited, carry_out
from swarm.plugins.study.record import ConfigurationRecord, DeclaredComparison, study_store
from swarm.plugins.study.run.matrix import OWNED, Matrix
from swarm.spelling import did_you_mean
from swarm.views.studies import AgainstRequest

ALONE = "alone"
"""What is said for: nobody shares, and each node trains on as many groups, all its own."""
FIGURE = "reward.png"
_NEXT = re.compile(r",(?=\s*[\w.-]+\s*=)")
"""Between two settings; the value of one may hold commas."""
_NO_NAME = re.compile(r"[^A-Za-z0-9_.]+")


def compared(asked: AgainstRequest) -> int:
    """Runs both swarms, or what is left of them, and says what came of it. Returns the exit code."""
    need_analysis("--against")
    matrix = matrix_of(asked)
    given = {name: value for name, value in asked.flags.items() if name not in OWNED or name == "path"}
    chosen, shared = as_begun_or_suited(matrix, given, asked.config, bring_back=not asked.dry_run)
    code = carry_out(chosen, shared, asked.again, dry_run=asked.dry_run)
    if code == 0 and not asked.dry_run:
        _say_what_came(shared, matrix.name)
    return code


def matrix_of(asked: AgainstRequest) -> Matrix:
    """Returns the two configurations by the seeds. Raises ConfigError: the other one is none, or is the same."""
    settings = asked.settings
    other = _other(asked.other, settings)
    ours, theirs = ("sharing", ALONE) if asked.other == ALONE else ("as-asked", _NO_NAME.sub("-", asked.other)[:40])
    if all(value == settings.value(name) for name, value in other.items()):
        raise ConfigError(f"--against {asked.other}: the swarm is that anyway; name another value")
    return Matrix(
        name=f"{settings.experiment}-vs-{_NO_NAME.sub('-', asked.other)[:40]}",
        title=f"{ours} against {theirs}",
        nodes=asked.nodes,
        rounds=settings.max_rounds,
        seeds=tuple(range(settings.seed, settings.seed + asked.seeds)),
        configurations=(
            ConfigurationRecord(name=ours, settings={}, baseline=theirs),
            ConfigurationRecord(name=theirs, settings=other),
        ),
        settings={name: value for name, value in asked.defaults.items() if name not in OWNED},
        declared=(DeclaredComparison(configuration=ours, baseline=theirs, test="paired"),),
    )


def _other(said: str, settings: Settings) -> dict[str, Any]:
    """Returns setting -> value of `alone`, or of `NAME=VALUE,...`, by the names of flags, settings or variables."""
    if said == ALONE:
        return {"local_groups": settings.local_groups + settings.external_groups, "external_groups": 0}
    found = dict[str, Any]()
    for part in _NEXT.split(said):
        word, equals, value = part.partition("=")
        name = word.strip().removeprefix("--").replace("-", "_")
        name = VARIABLES.get(name, SETTING_OF_FLAG.get(name, name))
        if not equals or name not in FIELDS:
            known = name in FIELDS  # and only its value is missing
            meant = "" if known else did_you_mean(word.strip(), [ALONE, *SETTING_OF_FLAG, *FIELDS])
            raise ConfigError(
                f"--against expects `alone`, or settings such as external=0,local=8, got {quoted(part)}{meant}"
            )
        found[name] = parse(name, value.strip(), "--against")
    return found


def _say_what_came(shared: Settings, study: str) -> None:
    from swarm.plugins.study.report.evidence import read_evidence
    from swarm.plugins.study.report.figures import encoded, figure_style, mean_over_seeds

    evidence, store = read_evidence(shared.shared_folder, study, None), study_store(shared.shared_folder, study)
    with figure_style():
        store.put(FIGURE, encoded(mean_over_seeds(evidence, evidence.rounds), "png"), durable=False)
    say(f"two curves: {store.describe(FIGURE)}")
    (row,) = evidence.declared.to_dict("records")
    say(sentence(row, evidence.record.rounds))


def sentence(row: dict[Any, Any], rounds: int) -> str:
    """Returns what was found, and how sure that is.

    Args:
        row: of declared_table, of a paired comparison.
        rounds: of each run.
    """
    one, other, n = row["configuration"], row["baseline"], row["n"]
    runs = "one run" if n == 1 else f"{n} runs"
    found = f"{one} earned {row['mean']:.2f} in {rounds} rounds, {other} {row['baseline_mean']:.2f}"
    gain, low, high = (row[f"improvement{end}"] for end in ("", "_low", "_high"))
    by = "" if gain != gain else f": {gain:+.1f} %"
    if n < FEWEST_SEEDS or low != low:
        more = f"--seeds {FEWEST_SEEDS} or more give an interval"
        return f"{found}{by}. This is {runs} of each, so it may be chance: {more}."
    sure = "" if low > 0 or high < 0 else ". The interval holds 0: this may be chance"
    return f"{found}{by} (95 % interval {low:+.1f} to {high:+.1f}, {runs} of each, paired by seed){sure}."
