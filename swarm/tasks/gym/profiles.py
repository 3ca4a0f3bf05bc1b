"""Difficulty profiles: how hard each task is asked.

A profile is part of a question's origin, so its numbers are part of the protocol: changing one changes every question,
and peers with other numbers regenerate another text and refuse the rollout.

    paper-2   for real models: reasoning-gym's own defaults, but for one task; reward for right answers alone, and no
              question without meaning
    tiny-3    the same for a model of one million parameters on a laptop: short questions

    paper     reasoning-gym's own defaults and rewards, for replications: the SAPO paper (arXiv:2509.08721, section 4.1)
              names tasks, no difficulty
    rl-swarm  those of genrl's example and of rl-swarm (github.com/gensyn-ai/rl-swarm, rgym_exp/src/datasets.yaml):
              as `paper` but for four tasks
    tiny-2    as tiny-3, with questions that contradict themselves or ask nothing, for runs begun with it
    tiny      what tiny-2 replaced: decimals may be off by 0.1, wrong answers may earn a little

The tiny numbers keep two costs down. Prompts are short (one worked example, small grids), because a CPU pays for every
prompt token; and no rule needs more than a few steps of thought, because a tiny model answers without any.
"""

from __future__ import annotations

SAPO_TASKS: tuple[str, ...] = (
    "base_conversion",
    "basic_arithmetic",
    "arc_1d",
    "bf",
    "propositional_logic",
    "fraction_simplification",
    "decimal_arithmetic",
    "calendar_arithmetic",
    "binary_matrix",
)
"""The nine specialties of the paper, in its order."""


def _ranges(**ranges: tuple[int, int]) -> dict[str, object]:
    """Returns the smallest and largest of each size, as the library names them."""
    smallest: dict[str, object] = {f"min_{size}": least for size, (least, _) in ranges.items()}
    return smallest | {f"max_{size}": most for size, (_, most) in ranges.items()}


_TINY: dict[str, dict[str, object]] = {
    "base_conversion": _ranges(base=(2, 4), value=(0, 63)),
    "basic_arithmetic": _ranges(terms=(2, 3), digits=(1, 1))
    | {"operators": ["+", "-"], "allow_parentheses": False, "allow_negation": False},
    "arc_1d": _ranges(size=(8, 8)) | {"num_train": 1},
    "bf": {"difficulty": 1},
    "propositional_logic": _ranges(vars=(2, 3), statements=(2, 2), complexity=(1, 2)),
    "fraction_simplification": _ranges(value=(1, 9), factor=(2, 9)) | {"styles": ["plain"]},
    "decimal_arithmetic": _ranges(num_decimal_places=(0, 1), terms=(2, 2)) | {"precision": 3},
    "calendar_arithmetic": {
        "tasks": ["weekday_offset", "is_leap_year"],
        "offset_upper_bound": 7,
        "leap_year_range": 100,
    },
    "binary_matrix": _ranges(n=(2, 3)) | {"p_zero": 0.5},
}

_TINY_2: dict[str, dict[str, object]] = _TINY | {
    # from 1 on: the key of 0 in another base is the empty text, which no answer earns
    "base_conversion": _ranges(base=(2, 4), value=(1, 63)),
    # of two or three variables, one conclusion for all questions is right in 86 %; of eight, in 25 %
    "propositional_logic": _ranges(vars=(8, 8), statements=(2, 2), complexity=(2, 2)),
    # "No" is right for three of four years
    "calendar_arithmetic": {"tasks": ["weekday_offset"], "offset_upper_bound": 7},
}

PROFILES: dict[str, dict[str, dict[str, object]]] = {
    "paper-2": {task: {} for task in SAPO_TASKS}
    # no statement is a bare variable: `(P ∧ Q)` would be right to a third of the questions
    | {"propositional_logic": {"min_complexity": 2}},
    "tiny-3": _TINY_2,
    "paper": {task: {} for task in SAPO_TASKS},
    "rl-swarm": {task: {} for task in SAPO_TASKS}
    | {
        "basic_arithmetic": {"format_style": "natural"},
        "fraction_simplification": {
            "max_value": 100,
            "min_factor": 2,
            "styles": ["plain", "latex_frac", "latex_dfrac"],
        },
        "decimal_arithmetic": {"min_num_decimal_places": 1, "precision": 5},
        "calendar_arithmetic": {
            "year": 2023,
            "tasks": ["count_days", "weekday_of_date", "is_leap_year", "recurring_event_day"],
        },
    },
    "tiny-2": _TINY_2,
    "tiny": _TINY,
}
"""Profile name -> task -> keyword arguments of the reasoning-gym dataset (`seed` and `size` come from the origin)."""

DRAWN_AGAIN: frozenset[str] = frozenset({"paper-2", "tiny-3"})
"""Profiles in which a question without meaning is drawn again; see swarm.tasks.gym.strict."""
STRICT: frozenset[str] = DRAWN_AGAIN | {"tiny-2"}
"""Profiles whose reward is 1 for a right answer and 0 for any other; see swarm.tasks.gym.strict."""
