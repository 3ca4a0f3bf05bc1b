"""The length of the longest prompt, measured once: asking the tasks themselves costs more than a second.

400 questions per task of the first family (0.1.25), seeds drawn at random. For the embedded models: whole prompts, in
their own tokens. For all others: pieces of the question under Qwen2's pre-tokenizer, which splits numbers into digits;
a common word is one token there, and no piece is less than one.
"""

from __future__ import annotations

from collections.abc import Sequence

from swarm.policy.embedded import EMBEDDED

FRAME_TOKENS = 64
"""Instruction and chat template around a question, for models that are not embedded."""

_LONGEST: dict[str, dict[str, tuple[int, int, int]]] = {
    "paper": {
        "base_conversion": (56, 40, 52),
        "basic_arithmetic": (46, 59, 71),
        "arc_1d": (523, 241, 457),
        "bf": (27, 59, 86),
        "propositional_logic": (150, 89, 164),
        "fraction_simplification": (33, 26, 26),
        "decimal_arithmetic": (66, 56, 58),
        "calendar_arithmetic": (52, 129, 202),
        "binary_matrix": (268, 128, 220),
    },
    "rl-swarm": {
        "base_conversion": (56, 40, 52),
        "basic_arithmetic": (46, 59, 76),
        "arc_1d": (523, 241, 457),
        "bf": (27, 61, 97),
        "propositional_logic": (150, 89, 164),
        "fraction_simplification": (31, 24, 24),
        "decimal_arithmetic": (64, 52, 54),
        "calendar_arithmetic": (52, 128, 201),
        "binary_matrix": (268, 128, 220),
    },
    "tiny-2": {
        "base_conversion": (51, 25, 30),
        "basic_arithmetic": (12, 11, 15),
        "arc_1d": (129, 41, 71),
        "bf": (27, 67, 97),
        "propositional_logic": (112, 44, 78),
        "fraction_simplification": (24, 9, 9),
        "decimal_arithmetic": (38, 20, 22),
        "calendar_arithmetic": (45, 39, 107),
        "binary_matrix": (86, 30, 38),
    },
    "tiny": {
        "base_conversion": (51, 25, 30),
        "basic_arithmetic": (12, 11, 15),
        "arc_1d": (129, 41, 71),
        "bf": (27, 59, 86),
        "propositional_logic": (112, 44, 78),
        "fraction_simplification": (24, 9, 9),
        "decimal_arithmetic": (38, 20, 22),
        "calendar_arithmetic": (45, 30, 89),
        "binary_matrix": (86, 30, 38),
    },
}
_LONGEST["paper-2"] = _LONGEST["paper"] | {"propositional_logic": (172, 175, 278)}
_LONGEST["tiny-3"] = _LONGEST["tiny-2"] | {"propositional_logic": (117, 62, 99)}
"""Profile -> task -> (pieces of the question, tokens of the prompt for the embedded models of Qwen2, of GPT-2)."""
_COLUMN = {name: 2 if "gpt2" in name else 1 for name in EMBEDDED}


def longest_prompt(model: str, profile: str, tasks: Sequence[str] | None) -> int:
    """Returns tokens of the longest prompt that a model may be given; tasks None: all of the profile."""
    measured = _LONGEST[profile]
    column = _COLUMN.get(model, 0)
    of_all = max(lengths[column] for lengths in measured.values())  # what counts for a task that was not measured
    longest = max((measured[task][column] if task in measured else of_all) for task in tasks or measured)
    return longest if column else longest + FRAME_TOKENS
