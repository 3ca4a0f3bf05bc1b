"""Finds which tokens of a tokenizer its model embeds, and takes the others away.

Some tokenizers know a token or two more than the embedding has rows, such as Gemma 3's for images: as long as no text
is made of them, they do no harm. They are taken out, so that their names in a text are text.

    tokenizer, rows ──fitted──▶ tokenizer of ids below rows, names of what is gone ──(asked_well)──▶ in no prompt
"""

from __future__ import annotations

import copy
import json
from typing import Any

from tokenizers import Tokenizer

from swarm.errors import ModelError
from swarm.harmless import quoted


def fitted(name: str, tokenizer: Any, rows: int) -> tuple[Any, tuple[str, ...]]:
    """Returns a tokenizer without the added tokens that the model does not embed, and their names.

    Raises:
        ModelError: texts are made of them, or they begin or end one.
    """
    beyond = {token: index for token, index in tokenizer.get_vocab().items() if index >= rows}
    if not beyond:
        return tokenizer, ()
    used = [token for token in (tokenizer.bos_token, tokenizer.eos_token) if token in beyond]
    if not beyond.keys() <= tokenizer.get_added_vocab().keys() or not getattr(tokenizer, "is_fast", False):
        raise ModelError(
            f"model {name!r}: its tokenizer knows {rows + len(beyond)} tokens, but the model embeds only {rows}. "
            "They do not belong together; use the tokenizer the model was trained with."
        )
    if used:
        raise ModelError(
            f"model {name!r}: its tokenizer begins or ends texts with {quoted(used[0])}, token {beyond[used[0]]}, but "
            f"the model embeds only {rows}. Use the tokenizer the model was trained with, or a model whose embedding "
            "was resized for it."
        )
    return _without(tokenizer, beyond), tuple(sorted(beyond))


def _without(tokenizer: Any, tokens: dict[str, int]) -> Any:
    """Returns a copy that does not know these added tokens."""
    form = json.loads(tokenizer.backend_tokenizer.to_str())
    form["added_tokens"] = [one for one in form["added_tokens"] if one["content"] not in tokens]
    kept = copy.copy(tokenizer)
    kept._tokenizer = Tokenizer.from_str(json.dumps(form))
    return kept
