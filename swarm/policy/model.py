"""Loads a model and its tokenizer, with the facts that are needed to run it.

    name ──▶ a folder of files (model_files, hub) ──load_model──▶ LanguageModel: weights, tokenizer, facts about both

Sizes: B rows, T positions, D hidden size, V vocabulary.

fitted takes away the tokens of a tokenizer that its model does not embed.
Some tokenizers know a token or two more than the embedding has rows, such as Gemma 3's for images: as long as no text
is made of them, they do no harm. They are taken out, so that their names in a text are text.

    tokenizer, rows ──fitted──▶ tokenizer of ids below rows, names of what is gone ──(asked_well)──▶ in no prompt
"""

from __future__ import annotations

import copy
import hashlib
import inspect
import json
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from tokenizers import Tokenizer
from torch import Tensor, nn
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer
from transformers.utils.logging import disable_progress_bar

from swarm.errors import ModelError, NoModelError
from swarm.harmless import printable, quoted
from swarm.logs import get_logger
from swarm.policy.attention import use_attention
from swarm.policy.compiled import CompiledTraining
from swarm.policy.device import autocast_dtype_of, pick_device, refuse_unsuited
from swarm.policy.given_weights import merge_adapter
from swarm.policy.hub import fetch, is_hub_id
from swarm.policy.lora import AdaptedBase, Adapter, StackedAdapters
from swarm.policy.model_files import folder_problem, model_names, resolve_model
from swarm.policy.peft_form import adapter_of, is_adapter
from swarm.policy.settings import suited_length

logger = get_logger(__name__)

_NO_CONTEXT_LIMIT = 2**31
_DIGEST_LENGTH = 32
_NAMED = 3
"""So many weights are named in an error."""
_OF_ANOTHER = (
    "Fetch the model again. If you saved it yourself: use save_pretrained on the model itself, not on what wraps it "
    "(torch.compile, DistributedDataParallel, PEFT), and see that config.json is of these weights."
)
_REMEDY = "Check MODEL_NAME, the network and HUGGINGFACE_ACCESS_TOKEN."
_LOADING_ERRORS = (OSError, ValueError, KeyError, AttributeError, ImportError, RuntimeError, SafetensorError)


@dataclass(frozen=True)
class LanguageModel:
    """A causal LM with its tokenizer, in evaluation mode and without any dropout.

    Its weights are fp32, unless they are a frozen base, beside which an adapter is trained.
    """

    name: str
    """Short name that peers see: the last part of the path or hub id."""
    module: Any
    """The transformers `...ForCausalLM`."""
    tokenizer: Any
    device: torch.device
    autocast_dtype: torch.dtype | None
    """bfloat16 or float16 where matrix products are computed in it, None for fp32."""
    eos_ids: frozenset[int]
    """Sampling any of these ends a completion."""
    eos_id: int
    """The one appended to an external completion that was finished."""
    pad_id: int
    """Fills masked positions; any valid id would do, because nothing attends to them."""
    context: int
    """Longest sequence, tokens."""
    max_new_tokens: int
    """Longest completion, tokens."""
    tokenizer_digest: str
    """Two models with the same one mean the same by a token id: 32 hex digits."""
    base: AdaptedBase | None = None
    """The module's layers, where it is a frozen base."""
    adapter: Adapter | StackedAdapters | None = None
    """What is used on that: one node's, or those of several, each row its own; None: the base alone."""
    packs: bool = False
    """Rows of training data are packed into one sequence."""
    compiled: CompiledTraining | None = None
    """What its training pass uses of torch.compile; None: nothing."""
    not_embedded: tuple[str, ...] = ()
    """Tokens that its tokenizer had and the model does not embed: their names are text."""

    def hidden(
        self,
        ids_B_T: Tensor,
        *,
        mask: Tensor | None,
        positions_B_T: Tensor,
        cache: Any = None,
        owner_B: Tensor | None = None,
    ) -> Tensor:
        """Final hidden states [B, T, D], before the output head.

        Args:
            mask: bool [B, past + T], False on padding; None if there is none. One with 4 dimensions goes to the
                attention as it is.
            cache: a transformers Cache to read and extend, or None.
            owner_B: which of several adapters each row uses; for one, or none: None.
        """
        body, cache_argument = self._body
        with self.autocast(), self.adapted(owner_B):
            output = body(
                input_ids=ids_B_T,
                attention_mask=mask,
                position_ids=positions_B_T,
                use_cache=cache is not None,
                **{cache_argument: cache},
            )
        return output.last_hidden_state  # type: ignore[no-any-return]

    @cached_property
    def _body(self) -> tuple[Any, str]:
        """The model without its head, and how its forward pass calls the cache: `cache` since transformers 5.24, before
        that `past_key_values`."""
        body = self.module.base_model
        if body is self.module:  # Llama 4's prefix names no part of it
            body = getattr(body, "model", body)
        named = inspect.signature(body.__class__.forward).parameters
        return body, "past_key_values" if "past_key_values" in named and "cache" not in named else "cache"

    def logits(self, hidden: Tensor) -> Tensor:
        """Returns fp32 logits [..., V] of hidden states [..., D]."""
        with self.autocast():
            logits: Tensor = self.module.get_output_embeddings()(hidden)
        return _scale_logits(self.module.config, logits.float())

    def adapted(self, owner_B: Tensor | None = None) -> AbstractContextManager[None]:
        """Has the layers use the adapter within the block; activations that are recomputed need it there, too."""
        if self.base is None:
            return nullcontext()
        if isinstance(self.adapter, StackedAdapters) and owner_B is not None:
            return self.base.using(self.adapter.of_rows(owner_B))
        return self.base.using(self.adapter)

    def as_compiled(self) -> AbstractContextManager[None]:
        """Has the layers run compiled within the block, if they are."""
        return self.compiled.layers() if self.compiled else nullcontext()

    @property
    def trained(self) -> dict[str, nn.Parameter]:
        """Returns the parameters that an update changes, by name: the adapter's matrices, or all weights."""
        if isinstance(self.adapter, Adapter):
            return self.adapter.parameters()
        return dict(self.module.named_parameters())

    def autocast(self, *, cache_weights: bool | None = None) -> torch.autocast:
        """Returns the mixed-precision region of the forward pass; does nothing in fp32.

        Args:
            cache_weights: cast each weight once per outermost region; None: as the region around this one, or yes.
        """
        enabled = self.autocast_dtype is not None
        return torch.autocast(self.device.type, dtype=self.autocast_dtype, enabled=enabled, cache_enabled=cache_weights)


def load_model(
    name: str,
    *,
    base: str | None = None,
    device: str | None = None,
    hub_token: str | None = None,
    max_new_tokens: int | None = None,
    precision: str = "auto",
    attention: str = "auto",
    frozen: bool = False,
) -> LanguageModel:
    """Load weights and tokenizer, and check that they fit each other. Runs no code of the model's folder.

    Args:
        base: of an adapter: the model that it is added to; None: what it names.
        device: "cpu", "cuda", "cuda:1" ...; None: a GPU if there is one.
        max_new_tokens: longest completion; None: what swarm.policy.settings.suited_length makes of the model's own.
        precision: `bf16` and `fp16` compute matrix products in that under autocast, `fp32` does not; `auto`: bf16 on
            GPUs of the Ampere generation and newer, and fp16 on older ones where the weights are frozen.
        attention: `eager` or `sdpa`; `auto`: sdpa where the architecture has it, else eager.
        frozen: no update will change the weights, so that they are held in what is computed in; else in fp32.

    Raises:
        ModelError: not found, no network, unfit for training here, or model and tokenizer do not belong together.
    """
    began = time.perf_counter()
    disable_progress_bar()  # the terminal and the log belong to the node
    target = pick_device(device)
    refuse_unsuited(name, target, precision)
    folder = source = _folder(name, hub_token)
    saved = adapter_of(folder) if is_adapter(folder) else None
    if saved:
        source = _folder(base or saved.base_model_name_or_path, hub_token)
    dtype = (autocast_dtype_of(target, precision, frozen=frozen) if frozen else None) or torch.float32
    safely: dict[str, Any] = {"trust_remote_code": False}  # not even where a terminal could be asked
    tokenizer = _load_part(name, "tokenizer", lambda: AutoTokenizer.from_pretrained(source, **safely))
    config = _load_part(name, "config", lambda: AutoConfig.from_pretrained(source, **safely))
    module, loaded = _load_part(
        name,
        "weights",
        lambda: AutoModelForCausalLM.from_pretrained(
            source,
            config=config,
            output_loading_info=True,
            ignore_mismatched_sizes=True,  # _refuse_made_up says which
            dtype=dtype,
            # None: sdpa where the architecture has it, else eager. flash_attention_2 is no choice: beside left-padded
            # prompts it packs the whole KV cache anew for every token, and it knows no fixed-size cache. sdpa brings
            # flash kernels for what is not padded.
            attn_implementation=None if attention == "auto" else attention,
            use_safetensors=True,
            disable_mmap=not is_hub_id(name),  # others may cut a file there: of a mapped one this process would die
            **safely,
        ),
    )
    _refuse_made_up(name, loaded)
    if saved:
        merge_adapter(name, module, folder, saved)
    model = wrap_model(
        name, module, tokenizer, device=target, max_new_tokens=max_new_tokens, precision=precision, frozen=frozen
    )
    logger.info(
        "model.loaded",
        model=name,
        source=str(source),
        device=str(target),
        parameters=module.num_parameters(),
        max_new_tokens=model.max_new_tokens,
        seconds=round(time.perf_counter() - began, 1),
    )
    named = module.generation_config.max_new_tokens
    if not max_new_tokens and named and named > model.max_new_tokens:
        logger.info("model.length_bounded", model=name, max_new_tokens=model.max_new_tokens, named_by_the_model=named)
    return model


def _folder(name: str, hub_token: str | None) -> Path:
    """Returns where the files of a model are on this machine by now."""
    if is_hub_id(name):
        return fetch(name, lambda line: logger.info("model.fetching", progress=line), hub_token)
    folder = Path(resolve_model(name))
    if problem := folder_problem(folder):
        raise NoModelError(f"model {name!r}: {problem}. {_REMEDY}")
    return folder


def wrap_model(
    name: str,
    module: Any,
    tokenizer: Any,
    *,
    device: torch.device,
    max_new_tokens: int | None = None,
    precision: str = "auto",
    frozen: bool = False,
) -> LanguageModel:
    """Returns a LanguageModel from parts already in memory; same checks and errors as load_model."""
    if getattr(module, "_is_stateful", False):  # transformers' mark of recurrent layers
        raise ModelError(
            f"model {name!r}: {type(module).__name__} has recurrent layers, whose cache cannot be shared between "
            "completions. Use an attention-only model."
        )
    rows = module.get_input_embeddings().num_embeddings
    tokenizer, not_embedded = fitted(name, tokenizer, rows)
    declared = module.generation_config.eos_token_id
    eos_ids: set[int] = {*(declared if isinstance(declared, list) else [declared]), tokenizer.eos_token_id} - {None}
    embedded = [token for token in eos_ids if token < rows]
    if not embedded:
        raise ModelError(
            f"model {name!r}: neither tokenizer nor generation config name an end-of-text token that the model has, so "
            "no answer could ever finish. Set eos_token in its tokenizer_config.json."
        )
    eos_id = tokenizer.eos_token_id if tokenizer.eos_token_id is not None else min(embedded)
    disable_dropout(module)
    packs = use_attention(module)
    if device.type == "cpu":
        _own_memory(module)
    module.to(device)
    pad_id = tokenizer.pad_token_id
    return LanguageModel(
        name=Path(name).name,
        module=module.eval(),
        tokenizer=tokenizer,
        device=device,
        autocast_dtype=autocast_dtype_of(device, precision, frozen=frozen),
        eos_ids=frozenset(eos_ids),
        eos_id=eos_id,
        pad_id=pad_id if pad_id is not None and pad_id < rows else eos_id,
        context=getattr(module.config.get_text_config(), "max_position_embeddings", None) or _NO_CONTEXT_LIMIT,
        max_new_tokens=max_new_tokens or suited_length(module.generation_config.max_new_tokens),
        tokenizer_digest=_tokenizer_digest(tokenizer, eos_ids),
        packs=packs,
        not_embedded=not_embedded,
    )


def _load_part(name: str, part: str, load: Callable[[], Any]) -> Any:
    try:
        return load()
    except _LOADING_ERRORS as error:
        raise ModelError(
            f"model {name!r}: its {part} cannot be loaded: {type(error).__name__}: {error}. Expected {model_names()}. "
            f"{_REMEDY}"
        ) from error


def _refuse_made_up(name: str, loaded: dict[str, Any]) -> None:
    """Refuse a model whose files do not have all of its weights: transformers warns, and makes up the others.

    Args:
        loaded: what transformers tells of the loading, by kind.
    """
    missing, unknown = sorted(loaded["missing_keys"]), sorted(loaded["unexpected_keys"])
    of_another_shape = [
        f"{key} of shape {tuple(got)} where the model has {tuple(wanted)}"
        for key, got, wanted in sorted(loaded["mismatched_keys"])
    ]
    if of_another_shape:
        raise ModelError(f"model {name!r}: its files hold {_named(of_another_shape)}. {_OF_ANOTHER}")
    if missing:
        instead = f" They hold {_named(unknown)}, which the model does not have." if unknown else ""
        raise ModelError(
            f"model {name!r}: its files lack {_named(missing)}, which would be random numbers.{instead} {_OF_ANOTHER}"
        )


def _named(weights: list[str]) -> str:
    said, more = ", ".join(map(printable, weights[:_NAMED])), len(weights) - _NAMED
    return f"{said} and {more} more" if more > 0 else said


def _tokenizer_digest(tokenizer: Any, eos_ids: set[int]) -> str:
    """Returns a digest of what token ids mean: the vocabulary, added tokens included, and what ends a text."""
    digest = hashlib.sha256()
    for token, index in sorted(tokenizer.get_vocab().items(), key=lambda item: (item[1], item[0])):
        digest.update(f"{index} {len(token)} {token}\n".encode("utf-8", "surrogatepass"))
    digest.update(repr((sorted(tokenizer.get_added_vocab().items()), sorted(eos_ids))).encode("utf-8", "replace"))
    return digest.hexdigest()[:_DIGEST_LENGTH]


def disable_dropout(module: nn.Module) -> None:
    """Set every dropout probability to 0, for the modes in which `eval()` is not enough (gradient checkpointing)."""
    for part in module.modules():
        if isinstance(part, nn.Dropout):
            part.p = 0.0
        for attribute, value in vars(part).items():
            if "dropout" in attribute and isinstance(value, float):
                setattr(part, attribute, 0.0)


def _own_memory(module: nn.Module) -> None:
    """Copy weights out of the file they may be views of.

    Fresh memory is aligned alike in every process, without which sums can differ in the last bit from one load to the
    next.
    """
    for parameter in module.parameters():
        parameter.data = parameter.data.clone()


def _scale_logits(config: Any, logits: Tensor) -> Tensor:
    """Changes logits as some architectures do behind the head: Gemma's soft cap, Granite's and Cohere's scales."""
    text = config.get_text_config()
    if cap := getattr(text, "final_logit_softcapping", None):
        logits = torch.tanh(logits / cap) * cap
    if divisor := getattr(text, "logits_scaling", None):
        logits = logits / divisor
    if factor := getattr(text, "logit_scale", None):
        logits = logits * factor
    return logits


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
