"""The settings of a policy. Imports no torch, so that a command can read them in milliseconds.

The memory plan needs the sizes, too, to which buffers of static decoding are rounded up.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from swarm.algo.advantages import OVER_BATCH
from swarm.config import Settings, variable
from swarm.errors import ConfigError
from swarm.instruction import OURS, Asking
from swarm.policy.embedded import EMBEDDED, suited_device, suited_learning_rate
from swarm.policy.parts import NO_OPTIONS, MakePart, UpdateOptions, options_of, parts_of


@dataclass(frozen=True)
class LoraConfig:
    """An adapter: small matrices beside the frozen linear layers of a base (LoRA, arXiv:2106.09685)."""

    rank: int = 16
    """r: columns of A's product, rows of B's."""
    alpha: float = 32.0
    """What they add is scaled by alpha / rank, so that one learning rate suits all ranks ("LoRA Without Regret")."""
    targets: tuple[str, ...] | None = None
    """Endings of the names of the layers that have one; None: all linear layers but the head."""
    seed: int = 42
    """Seed of the draw of A; B begins at zero."""

    @property
    def scale(self) -> float:
        """Returns the factor of the matrices' product."""
        return self.alpha / self.rank

    def said(self) -> str:
        """Returns the settings without which it cannot go on, as variables."""
        values = {
            "adapter_rank": self.rank,
            "adapter_alpha": f"{self.alpha:g}",
            "adapter_targets": ",".join(self.targets) if self.targets else None,
        }
        named = [f"{variable(name)}={value}" for name, value in values.items() if value is not None]
        return " ".join([f"{variable('adapter')}=lora", *named])


def trained_as(adapter: LoraConfig | None) -> str:
    """Says which part of a model is trained, in the settings that choose it."""
    return adapter.said() if adapter else f"{variable('adapter')}=none"


DEFAULT_MAX_NEW_TOKENS = 256
"""Tokens of a completion. genrl's too; the longest answer of the nine tasks, a binary matrix, takes some 200 of
them."""
MOST_NAMED_TOKENS = 1024
"""The most that is taken from a model's generation config: a longer limit is a chat's, not that of I x G rows a round.
"""


def suited_length(named: int | None) -> int:
    """Returns tokens of the longest completion where nobody sets them.

    Args:
        named: in the model's generation config; None: it names none.
    """
    return named if named and named <= MOST_NAMED_TOKENS else DEFAULT_MAX_NEW_TOKENS


@dataclass(frozen=True)
class GrpoConfig:
    """Sampling and optimisation settings of one policy; swarm.config has their ranges.

    As in SAPO (arXiv:2509.08721, section 4.2): asymmetric clipping, no KL term, Adam; its learning rate is 1e-3.

    Raises:
        ConfigError: the advantages are scaled over the batch beside a KL term.
    """

    learning_rate: float = 1e-6
    """Adam's step size after warm-up. Billion-parameter models want about 1e-6, tiny ones 1e-4."""
    warmup_steps: int = 0
    """Updates over which the learning rate rises linearly from learning_rate / warmup_steps."""
    rate_decay: str = "none"
    """How it falls to 0 after `decay_steps` updates: `linear`, `cosine` (arXiv:1608.03983), or `none`: it does not."""
    decay_steps: int = 0
    """Updates of a whole run."""
    weight_decay: float = 0.0
    """Decoupled weight decay of AdamW."""
    max_grad_norm: float = 1.0
    """Gradients with a larger global L2 norm are scaled down to it; 0: none is."""
    clip_low: float = 0.2
    """The probability ratio gains nothing below 1 - clip_low."""
    clip_high: float = 0.28
    """The probability ratio gains nothing above 1 + clip_high (clip-higher of DAPO, arXiv:2503.14476)."""
    loss: str = "grpo"
    """What is minimised, by its name in swarm.algo.registry, or `package.module:function`."""
    empty_update: str = "step"
    """`step`: a round in which nothing carries a gradient is a step of Adam on zero; `skip`: it is none."""
    kl_weight: float = 0.0
    """Weight of the KL penalty towards the initial weights; above 0, a frozen second copy of the model is held."""
    iterations: int = 1
    """Optimizer steps per round on the same groups."""
    temperature: float = 1.0
    """Divides the logits, when sampling and in the trainer's log-probs alike."""
    top_p: float = 1.0
    """Nucleus sampling: keep the likeliest tokens that together reach this probability; 1 keeps all."""
    top_k: int = 0
    """Keep the k likeliest tokens; 0 keeps all, 1 is greedy."""
    min_p: float = 0.0
    """Keep tokens at least so likely as min_p times the likeliest one; 0 keeps all."""
    max_new_tokens: int | None = None
    """Longest completion, tokens; None: as suited_length."""
    stop: tuple[str, ...] = ()
    """A completion ends behind the first of these strings, which stays in its text."""
    asking: Asking = OURS
    """How questions are put."""
    micro_batch_tokens: int = 16384
    """Token positions, padding included, per forward and backward pass. Halved whenever the GPU runs out of memory."""
    importance_cap: float = 0.0
    """Weigh tokens with known behaviour log-probs by min(importance_cap, policy / behaviour); 0: weigh none."""
    options: UpdateOptions = NO_OPTIONS
    """What plugins ask of each update."""
    batch_std: bool = False
    """Advantages are r - mean, to be divided by their standard deviation over all groups of the update."""
    decoding: str = "auto"
    """`dynamic` or `static` KV cache while generating; `auto`: what suits the device."""
    adapter: LoraConfig | None = None
    """Train an adapter beside frozen weights; None: the weights themselves."""
    parts: Mapping[str, MakePart] = field(default_factory=dict, hash=False)
    """What plugins add to the trainer, by name."""
    gradient_checkpointing: bool = False
    """Recompute activations in the backward pass: less memory, about a third more time."""
    compiled_training: bool = False
    """Use torch.compile in the training pass (swarm.policy.compiled)."""

    def __post_init__(self) -> None:
        if self.batch_std and self.kl_weight > 0:
            raise ConfigError(
                f"{variable('advantage_scaling')}=std_batch divides the whole update, a KL term too: expected "
                f"{variable('kl_weight')}=0 beside it, got {self.kl_weight:g}; choose another scaling, or no KL term"
            )


def asking_of(settings: Settings) -> Asking:
    """Returns how a node puts its questions. Raises ConfigError: an argument of the template is not the user's to
    choose."""
    return Asking(settings.system_prompt, settings.instruction, settings.chat_template_args or {})


def lora_config(settings: Settings) -> LoraConfig | None:
    """Returns the adapter that a node trains; None: all of its weights."""
    if settings.adapter.kind == "none":
        return None
    rank, alpha, targets = settings.adapter.rank, settings.adapter.alpha, settings.adapter.targets
    return LoraConfig(rank, alpha, targets, settings.seed)


def grpo_config(settings: Settings) -> GrpoConfig:
    """Returns the configuration that a node's settings mean for its policy."""
    adapted = settings.adapter.kind != "none"
    return GrpoConfig(
        learning_rate=settings.learning_rate or suited_learning_rate(settings.model[0], adapted=adapted),
        temperature=settings.temperature,
        top_p=settings.top_p,
        top_k=settings.top_k,
        min_p=settings.min_p,
        max_new_tokens=settings.max_new_tokens,
        stop=settings.stop or (),
        asking=asking_of(settings),
        loss=settings.loss,
        empty_update=settings.optimizer.empty_update,
        clip_low=settings.clip_low,
        clip_high=settings.clip_high,
        warmup_steps=settings.optimizer.warmup_steps,
        rate_decay=settings.optimizer.rate_decay,
        decay_steps=settings.max_rounds * settings.max_stages * settings.grpo_iterations,
        weight_decay=settings.optimizer.weight_decay,
        kl_weight=settings.kl_weight,
        max_grad_norm=settings.optimizer.max_grad_norm,
        iterations=settings.grpo_iterations,
        micro_batch_tokens=settings.micro_batch_tokens,
        importance_cap=settings.token_weight_cap,
        options=options_of(settings),
        batch_std=settings.advantage_scaling == OVER_BATCH,
        decoding=settings.decoding,
        gradient_checkpointing=bool(settings.gradient_checkpointing),
        compiled_training=settings.compiled_training,
        adapter=lora_config(settings),
        parts=parts_of(settings),
    )


def loading_options(settings: Settings) -> dict[str, Any]:
    """Returns where and how a model is loaded: the keyword arguments of load_policy and load_generator.

    Without a number of threads all cores compute, but for an embedded model, which is too small to be shared out.
    """
    named = {name: getattr(settings, name) for name in ("hub_token", "precision", "attention")}
    return {
        "device": suited_device(settings.device, settings.model),
        "threads": settings.threads or (1 if settings.model[0] in EMBEDDED else None),
        **named,
    }


def unsuited(precision: str, *, is_gpu: bool, is_ampere: bool) -> str:
    """Returns why a device cannot compute in a precision; empty if it can.

    Args:
        is_ampere: it is a GPU of that generation or a newer one.
    """
    if precision == "bf16" and is_gpu and not is_ampere:
        return (
            "it does not compute in bf16, which needs the Ampere generation or newer; set the precision to fp32 or auto"
        )
    return ""


_MAX_LOGITS = {False: 2**22, True: 2**25}
"""Logits of one block of the vocabulary, fp32, on a CPU and on a GPU. On a CPU at V = 151,936, all of 2**18 to 2**24
took the same time within 8 %. A GPU is launched some forty operations for each block: of 16,000 tokens 24,000 with the
size for a CPU, which take longer to launch than to compute, and 3,000 with this one."""
_MIN_LOGITS_WIDTH = 256
"""Narrower blocks would starve the matrix products. So many logits weigh less than the token's activations anyway."""


def logits_width(tokens: int, vocabulary: int, *, on_gpu: bool) -> int:
    """Returns the entries of the vocabulary whose logits are held at once for so many tokens."""
    return min(vocabulary, max(_MIN_LOGITS_WIDTH, _MAX_LOGITS[on_gpu] // max(1, tokens)))


_FEWEST_COLUMNS = 64


def row_bucket(rows: int) -> int:
    """Returns the next power of two, 2 at least: a compiled step of one row would be another one."""
    return max(2, 1 << (rows - 1).bit_length())


def has_static_buffers(decoding: str, *, on_gpu: bool) -> bool:
    """Tells whether SWARM_DECODING asks for buffers of fixed size."""
    return on_gpu if decoding == "auto" else decoding != "dynamic"


def column_bucket(columns: int) -> int:
    """Two sizes per octave: 64, 128, 192, 256, 384, 512 ... All are multiples of 64, which suits attention kernels."""
    size = max(_FEWEST_COLUMNS, row_bucket(columns))
    smaller = size * 3 // 4
    return smaller if smaller >= columns and smaller % _FEWEST_COLUMNS == 0 else size
