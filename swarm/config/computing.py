"""The settings of computing: model and machine, how completions are sampled, how an update is made.

Declared as those in settings.py, which takes them in. Times are seconds, sizes bytes.
"""

from dataclasses import dataclass
from typing import Annotated, Literal

from swarm.config.constraints import (
    Names,
    Table,
    Text,
    above,
    one_of_or_own,
    real,
    setting,
    whole,
)
from swarm.config.names import ADVANTAGE_SCALINGS, LOSSES
from swarm.config.tables import SettingSection, SettingTable


@dataclass(frozen=True, kw_only=True)
class AdapterTable(SettingTable):
    """Declares what is trained beside frozen weights."""

    kind: Literal["none", "lora"] = setting("none", "SWARM_ADAPTER", run_flag="adapter", first=True)
    """`lora` trains small matrices, `none` all weights."""
    rank: Annotated[int, whole(1, 1024)] = setting(16, "SWARM_ADAPTER_RANK")
    """Rank r of the matrices."""
    alpha: Annotated[float, above(0)] = setting(32.0, "SWARM_ADAPTER_ALPHA")
    """What the matrices add is scaled by this divided by the rank."""
    targets: Names | None = setting(None, "SWARM_ADAPTER_TARGETS")
    """Endings of the names of layers that are adapted (`q_proj,v_proj`); None: all linear ones but the head."""


@dataclass(frozen=True, kw_only=True)
class OptimizerTable(SettingTable):
    """Declares how the weights step."""

    warmup_steps: Annotated[int, whole(0)] = setting(0, "SWARM_WARMUP_STEPS")
    """Updates over which the learning rate rises to its full value."""
    rate_decay: Literal["none", "linear", "cosine"] = setting("none", "SWARM_RATE_DECAY")
    """How the learning rate falls to 0 over the updates of the run's rounds (`MAX_ROUNDS`)."""
    weight_decay: Annotated[float, real(0)] = setting(0.0, "SWARM_WEIGHT_DECAY")
    """Decoupled weight decay of AdamW."""
    max_grad_norm: Annotated[float, real(0)] = setting(1.0, "SWARM_MAX_GRAD_NORM")
    """Gradients with a larger norm are scaled down to it; 0: never."""
    empty_update: Literal["skip", "step"] = setting("step", "SWARM_EMPTY_UPDATE")
    """What happens in a round in which no group has an advantage. `step`: Adam steps on a gradient of zero and its
    momentum goes on, as in genrl 0.1, the paper's framework; `skip`: weights and Adam stay as they are."""


@dataclass(frozen=True, kw_only=True)
class ModelSettings(SettingSection):
    """Declares what computes, and on what."""

    section = "Model and machine"
    model: Names = setting(("tiny-2-qwen2",), "MODEL_NAME", run_flag="model", first=True)
    """Embedded name, local path or Hugging Face id. `swarm up` deals a list out over its workers; a node takes one."""
    endpoint: Table | None = setting(None, "SWARM_ENDPOINT", reaches=True)
    """For a generator: the OpenAI-compatible server that answers (docs/generators.md); None: its model answers."""
    hub_token: Text | None = setting(None, "HUGGINGFACE_ACCESS_TOKEN", secret=True)
    """Access to gated models of the Hugging Face Hub."""
    device: Text | None = setting(None, "SWARM_DEVICE", run_flag="device", first=True)
    """`cpu`, `cuda` or `cuda:0`; None: the first GPU that torch reaches by CUDA or ROCm, else the CPU; of an embedded
    model the CPU, which is no slower. The GPU of a Mac (MPS) is not used."""
    threads: Annotated[int, whole(1, 1024)] | None = setting(None, "SWARM_THREADS", run_flag="threads")
    """CPU threads of the compute step; None: one for an embedded model, else all cores (`swarm up`: a share for each
    process)."""
    adapter: AdapterTable = setting(AdapterTable(), "SWARM_ADAPTER")
    """Trains small matrices beside the frozen weights of a base, which all nodes of a process share (docs/adapters.md).
    Nodes of one run may differ."""
    precision: Literal["auto", "fp32", "bf16", "fp16"] = setting("auto", "SWARM_PRECISION")
    """What the model computes in; the weights that are trained stay fp32. `auto`: bf16 on GPUs that have it; with an
    adapter fp16 on those that do not. fp16 scales the loss."""
    attention: Literal["auto", "eager", "sdpa"] = setting("auto", "SWARM_ATTENTION")
    """Attention back-end of transformers; `auto`: sdpa where the model has it, else eager."""
    decoding: Literal["auto", "dynamic", "static", "compiled"] = setting("auto", "SWARM_DECODING")
    """KV cache while generating: `dynamic` grows, `static` is fixed and replayed as CUDA graphs on a GPU. `compiled` is
    static with a step from torch.compile: half a minute at the start, for faster rounds. `auto`: static on a GPU."""
    compiled_training: bool = setting(False, "SWARM_COMPILED_TRAINING")
    """Updates use torch.compile: a minute at the start, for shorter ones on a GPU. Where the gradient is then another
    one, or none, they do without, and that is said."""
    device_lease: Literal["auto", "on", "off"] = setting("auto", "SWARM_DEVICE_LEASE")
    """Processes on one device take turns in their updates; `auto`: on GPUs, but not in one process."""
    micro_batch_tokens: Annotated[int, whole(64)] = setting(16384, "SWARM_MICRO_BATCH_TOKENS")
    """Padded tokens per forward and backward pass: less memory, same gradient."""
    gradient_checkpointing: bool | None = setting(None, "SWARM_GRADIENT_CHECKPOINTING")
    """Recompute activations in the backward pass: less memory, more time. None: if `swarm up` plans so."""
    scorer_processes: Annotated[int, whole(1, 64)] = setting(1, "SWARM_SCORER_PROCESSES")
    """Children that score answers, per worker process."""


@dataclass(frozen=True, kw_only=True)
class GenerationSettings(SettingSection):
    """Declares how completions are sampled."""

    section = "Generation"
    temperature: Annotated[float, above(0)] = setting(1.0, "SWARM_TEMPERATURE", run_flag="temperature")
    """Divides the logits, in sampling and in training alike."""
    top_p: Annotated[float, above(0, 1)] = setting(1.0, "SWARM_TOP_P")
    """Nucleus sampling: the likeliest tokens that together reach this probability; 1 keeps all."""
    top_k: Annotated[int, whole(0)] = setting(0, "SWARM_TOP_K")
    """Sample from the k likeliest tokens; 0: all, 1: always the likeliest."""
    min_p: Annotated[float, real(0, 1)] = setting(0.0, "SWARM_MIN_P")
    """Sample only tokens that have at least this share of the likeliest token's probability; 0: all."""
    max_new_tokens: Annotated[int, whole(1)] | None = setting(
        None, "SWARM_MAX_NEW_TOKENS", run_flag="max_new_tokens", first=True
    )
    """Length limit of a completion; None: what the model's generation config says up to 1024, else 256."""
    stop: Names | None = setting(None, "SWARM_STOP")
    """Strings such as `</answer>` that end a completion and stay in it; None: only the end of text ends it."""
    system_prompt: Text | None = setting(None, "SWARM_SYSTEM_PROMPT")
    """The system turn (docs/models.md); None: the instruction, which otherwise stands in front of the question."""
    instruction: Text | None = setting(None, "SWARM_INSTRUCTION")
    """What a model is told about its answer; None: the built-in one, unless the system prompt has `<answer>`."""
    chat_template_args: Table | None = setting(None, "SWARM_CHAT_TEMPLATE_ARGS")
    """Values for the model's chat template. `enable_thinking` is false where the template has it and this does not name
    it."""


@dataclass(frozen=True, kw_only=True)
class TrainingSettings(SettingSection):
    """Declares how an update is made."""

    section = "Training"
    learning_rate: Annotated[float, above(0)] | None = setting(
        None, "SWARM_LEARNING_RATE", run_flag="learning_rate", first=True
    )
    """Adam's step size; None: what suits the model (docs/models.md: the embedded ones 2e-4 or 3e-4, others 1e-6)."""
    optimizer: OptimizerTable = setting(OptimizerTable(), "SWARM_OPTIMIZER")
    """How AdamW steps, apart from the learning rate."""
    loss: Annotated[str, one_of_or_own(*LOSSES)] = setting("grpo", "SWARM_LOSS", run_flag="loss")
    """What an update minimises."""
    advantage_scaling: Annotated[str, one_of_or_own(*ADVANTAGE_SCALINGS)] = setting("std", "SWARM_ADVANTAGE_SCALING")
    """Advantages are rewards minus the group's mean, divided by this. `std`: the group's standard deviation; `none`:
    nothing; `std_batch`: the standard deviation of these differences over the whole update.
    """
    grpo_iterations: Annotated[int, whole(1, 64)] = setting(1, "SWARM_GRPO_ITERATIONS")
    """Optimizer steps per round on the same groups."""
    clip_low: Annotated[float, above(0, 0.99)] = setting(0.2, "SWARM_CLIP_LOW")
    """The probability ratio gains nothing below 1 - clip_low."""
    clip_high: Annotated[float, above(0)] = setting(0.28, "SWARM_CLIP_HIGH")
    """The probability ratio gains nothing above 1 + clip_high."""
    kl_weight: Annotated[float, real(0)] = setting(0.0, "SWARM_KL_WEIGHT")
    """Weight of the KL penalty towards the initial weights; above 0 a second copy of the model is held."""
    dynamic_sampling: Annotated[int, whole(1, 16)] = setting(1, "SWARM_DYNAMIC_SAMPLING")
    """The most attempts per round to get I groups with a signal (DAPO). Each further attempt asks fresh questions in
    place of groups without one. The reward is that of the first I questions. 1: no further attempt.
    """
