"""Says what every model is told beside the question, whoever runs it.

The final answer is expected between `<answer>` and `</answer>`, which is all that swarm's verifier reads.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from swarm.errors import ConfigError

INSTRUCTION = "Think briefly, then write the final answer alone between <answer> and </answer>."
TAG, END_TAG = "<answer>", "</answer>"
_OF_OURS = ("conversation", "tokenize", "add_generation_prompt", "continue_final_message", "return_dict")
"""Arguments of apply_chat_template that a prompt depends on being as they are."""


@dataclass(frozen=True)
class Asking:
    """Says how questions are put; a node's own choice.

    Raises:
        ConfigError: an argument of the template is not the user's to choose.
    """

    system_prompt: str | None = None
    """The text of the system turn; None: the instruction."""
    instruction: str | None = None
    """In the place of INSTRUCTION; with a system prompt it stands in front of the question."""
    template_args: Mapping[str, Any] = field(default_factory=dict)
    """Handed to the chat template, such as `enable_thinking`."""
    one_turn: bool = False
    """All is the user's turn: the chat template shows no system turn."""
    as_parts: bool = False
    """A turn is a list of parts: the chat template shows no text that is one string."""
    date: str | None = None
    """What templates that ask for today's date are told, as 2026-01-31; None: today's."""

    def __post_init__(self) -> None:
        if taken := [name for name in self.template_args if name in _OF_OURS]:
            raise ConfigError(
                f"SWARM_CHAT_TEMPLATE_ARGS must not set {', '.join(taken)}, which swarm sets itself: leave it out"
            )

    def turns(self, question: str) -> tuple[str, str]:
        """Returns the texts of the system turn and the user's."""
        if self.system_prompt is None:
            return self.told, question
        return self.system_prompt, f"{self.told}\n\n{question}" if self.told else question

    def in_one_turn(self, question: str) -> str:
        """Returns all together, for chat templates that know no system role, such as Gemma's."""
        return "\n\n".join(self.turns(question))

    def as_plain_text(self, question: str) -> str:
        """Returns the prompt of a model without a chat template, such as GPT-2."""
        texts = (self.system_prompt, self.told, f"Question: {question}\nAnswer:")
        return "\n\n".join(filter(None, texts))

    def reply_as_plain_text(self, reply: str) -> str:
        """Returns how such a prompt goes on behind a turn of the model."""
        return f"\n\n{reply}\nAnswer:"

    @property
    def told(self) -> str:
        """Returns the instruction; none if the system prompt says where the answer belongs, and nobody asks for one."""
        if self.instruction is not None:
            return self.instruction
        return "" if TAG in (self.system_prompt or "") else INSTRUCTION


OURS = Asking()
"""How questions are put where nobody says otherwise."""


def last_pair(text: str) -> tuple[int, int] | None:
    """Start and end of what is between the last closed pair of tags: from the last opening tag that is closed to the
    next closing one; None where there is none. Linear in the text's length."""
    last_close = text.rfind(END_TAG)
    opening = text.rfind(TAG, 0, max(last_close, 0))
    if opening < 0:
        return None
    start = opening + len(TAG)
    return start, text.find(END_TAG, start)


def answer_span(text: str) -> tuple[int, int] | None:
    """Returns the same with its tags."""
    pair = last_pair(text)
    return pair and (pair[0] - len(TAG), pair[1] + len(END_TAG))
