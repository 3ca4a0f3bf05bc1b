"""Puts a question into a model's prompt format.

Chat models get an instruction and a user turn, base models plain text. The final answer is expected between
`<answer>` and `</answer>`, which is all that swarm's verifier reads.
"""

from __future__ import annotations

from typing import Any

from jinja2 import TemplateError

INSTRUCTION = "Think briefly, then write the final answer alone between <answer> and </answer>."

PLAIN_FORM = "{instruction}\n\nQuestion: {question}\nAnswer:"
"""For tokenizers without a chat template, such as GPT-2's."""


def encode_prompt(tokenizer: Any, question: str) -> list[int]:
    """Token ids of the whole prompt, up to where the model's answer begins."""
    if tokenizer.chat_template is None:
        text = PLAIN_FORM.format(instruction=INSTRUCTION, question=question)
        return _without_end_of_text(tokenizer, tokenizer(text)["input_ids"])
    return list(tokenizer(_chat_text(tokenizer, question), add_special_tokens=False)["input_ids"])


def encode_completion(tokenizer: Any, text: str) -> list[int]:
    """Token ids of an external completion as this tokenizer would have written it, without any end-of-text.

    Names of special tokens inside the text stay text: no completion goes on after an end-of-text.
    """
    return list(tokenizer(text, add_special_tokens=False, split_special_tokens=True)["input_ids"])


def decode_completion(tokenizer: Any, token_ids: list[int]) -> str:
    """The text of sampled ids, special tokens left out."""
    text: str = tokenizer.decode(token_ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)
    return text


def _chat_text(tokenizer: Any, question: str) -> str:
    turns = [{"role": "system", "content": INSTRUCTION}, {"role": "user", "content": question}]
    try:
        return _render(tokenizer, turns)
    except TemplateError:  # Gemma's and others know no system role and say so
        return _render(tokenizer, [{"role": "user", "content": f"{INSTRUCTION}\n\n{question}"}])


def _render(tokenizer: Any, turns: list[dict[str, str]]) -> str:
    text: str = tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)
    return text


def _without_end_of_text(tokenizer: Any, ids: list[int]) -> list[int]:
    """Some tokenizers close every text; behind a prompt that would mean that nothing follows."""
    return ids[:-1] if ids and ids[-1] == tokenizer.eos_token_id else ids
