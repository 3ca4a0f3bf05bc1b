"""The GRPO trainer of genrl (gensyn-ai/genrl, the SAPO paper's framework) on groups of ours, on the CPU.

    groups ──messages, texts, rewards──▶ GRPOLanguageTrainerModule.train ──▶ gradient before each step of Adam, weights

Its code is imported, from the environment or from a folder, and none of it is changed or copied. `train` asks a game
state, a data manager and a reward manager for one stage; an object of this module answers. Observed and varied is
through its own seams: `compute_loss` is overridden to see its inputs and calls the original, the tokenizer is its
argument `processing_class`, and a hook of torch sees the gradients. Packages that genrl imports for other purposes
(data sets, loggers) and that are not installed are modules of None during the import; calling into one would raise.

Not its defaults: one step of Adam per round over all rows (newer releases offer minibatches), no activation
checkpointing, the learning rate.

genrl pins a version of transformers that this package cannot use, so it is no extra of it:
pip install --no-deps gensyn-genrl==0.1.11
"""

from __future__ import annotations

import hashlib
import importlib
import inspect
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import Tensor
from transformers import AutoModelForCausalLM, AutoTokenizer

from swarm.instruction import INSTRUCTION
from swarm.types import Completion

MISSING = (
    "genrl cannot be imported: {error}. Install it without its dependencies, whose transformers is another: "
    "pip install --no-deps gensyn-genrl==0.1.11; or name a folder that holds its package: --genrl PATH"
)
UNUSED = ("datasets", "wandb", "tensorboard", "torch.utils.tensorboard")
"""What genrl imports beside its trainer, which uses none of it."""


@dataclass(frozen=True)
class Group:
    """A question's completions and rewards."""

    prompt: str
    completions: tuple[Completion, ...]
    rewards: tuple[float, ...]


@dataclass(frozen=True)
class Changes:
    """In what genrl's side does as ours; nothing: genrl as it is."""

    right_padded: bool = False
    """Completions are padded on the right: padded on the left, as prompts are, they are parted from their prompts."""
    end_of_text: bool = False
    """Completions that ended keep their end-of-text token: genrl trains on decoded text, which has none."""
    population_std: bool = False
    """Advantages are (r - mean) / std with the population's standard deviation; genrl divides by the sample's."""


def load_genrl(folder: Path | None = None, package: str = "genrl") -> ModuleType:
    """The module of genrl's GRPO trainer.

    Args:
        folder: holds the package; None: the environment does.
        package: its name, where it is vendored another one, such as `rgym_exp.vendor.genrl`.

    Raises:
        SystemExit: it is not there; says what to install.
    """
    if folder:
        sys.path.insert(0, str(folder))
    try:
        with _absent(UNUSED):
            return importlib.import_module(f"{package}.trainer.grpo_trainer")
    except ImportError as error:
        sys.exit(MISSING.format(error=error))


def identity(module: ModuleType) -> dict[str, str | None]:
    """Which trainer this is: its release, where a release's metadata is beside it, and the digest of its file."""
    file = Path(inspect.getfile(module))
    beside = file.parents[2].glob("gensyn_genrl-*.dist-info")
    return {
        "release": next((path.name.removesuffix(".dist-info").partition("-")[2] for path in beside), None),
        "trainer_sha256": hashlib.sha256(file.read_bytes()).hexdigest(),
    }


class GenrlSide:
    """A model in the hands of genrl's trainer.

    Attributes:
        gradient: by parameter name, of the latest step of Adam; empty before the first.
        steps: steps of Adam so far.
        inputs: of the latest `compute_loss`.
    """

    def __init__(self, genrl: ModuleType, model: Path, group_size: int, rate: float, scratch: Path, changes: Changes):
        self._changes = changes
        self._module: Any = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32)
        self._tokenizer: Any = AutoTokenizer.from_pretrained(model)
        self.gradient: dict[str, Tensor] = {}
        self.steps = 0
        self.inputs: dict[str, Any] = {}
        self._trainer = self._observed(genrl)(
            [self._module],
            _configured(genrl.GRPOTrainerConfig, group_size, rate),
            processing_class=_Reader(self._tokenizer) if changes.right_padded else None,
            log_dir=str(scratch),
        )
        self._trainer.optimizer.register_step_pre_hook(self._before_step)

    def train(self, groups: Sequence[Group]) -> None:
        """One round through its `train`."""
        if hasattr(self._trainer.args, "minibatch_size"):
            self._trainer.args.minibatch_size = sum(len(group.completions) for group in groups)
        texts = [[self._text(completion) for completion in group.completions] for group in groups]
        stage = _Stage([group.prompt for group in groups], texts, [list(group.rewards) for group in groups])
        self._trainer.train(stage, stage, stage)

    def weights(self) -> dict[str, Tensor]:
        """A copy, by parameter name."""
        return {name: weight.detach().clone() for name, weight in self._module.named_parameters()}

    def _text(self, completion: Completion) -> str:
        ends = self._changes.end_of_text and completion.finished
        return completion.text + self._tokenizer.eos_token if ends else completion.text

    def _observed(self, genrl: ModuleType) -> Any:
        side = self

        class Observed(genrl.GRPOLanguageTrainerModule):  # type: ignore[name-defined,misc]
            def compute_loss(self, model: Any, inputs: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
                side.inputs = inputs | {"advantages": side._scaled(inputs["advantages"], self.args.num_generations)}
                return super().compute_loss(model, side.inputs, *args, **kwargs)

        return Observed

    def _scaled(self, advantage_N: Tensor, group_size: int) -> Tensor:
        """The sample's standard deviation is sqrt(G / (G - 1)) times the population's."""
        return advantage_N * (group_size / (group_size - 1)) ** 0.5 if self._changes.population_std else advantage_N

    def _before_step(self, *_: Any) -> None:
        self.steps += 1
        self.gradient = {name: p.grad.clone() for name, p in self._module.named_parameters() if p.grad is not None}


class _Reader:
    """A tokenizer as genrl calls it, which pads prompts on the left and completions on the right."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._prompts: set[str] = set()

    def apply_chat_template(self, *args: Any, **kwargs: Any) -> str:
        text: str = self._tokenizer.apply_chat_template(*args, **kwargs)
        self._prompts.add(text)
        return text

    def __call__(self, text: list[str], **kwargs: Any) -> Any:
        side = "left" if self._prompts.issuperset(text) else "right"
        return self._tokenizer(text=text, padding_side=side, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tokenizer, name)


class _Stage:
    """State, data manager and reward manager of one agent's only stage: each group is one node of its game tree."""

    stage = 1

    def __init__(self, prompts: list[str], texts: list[list[str]], rewards: list[list[float]]) -> None:
        self._prompts, self._texts, self._rewards = prompts, texts, rewards

    def get_stage_state(self, stage: int) -> list[str]:
        return self._prompts

    def prepare_input(self, prompts: list[str], stage: int) -> tuple[list[dict[str, Any]], list[tuple[int, int, int]]]:
        turns = [_turns(prompt) for prompt in prompts]
        return [{"prompt": turn} for turn in turns], [(0, batch, 0) for batch in range(len(prompts))]

    def get_stage_actions(self, stage: int) -> dict[int, dict[int, list[list[str]]]]:
        return {0: {batch: [texts] for batch, texts in enumerate(self._texts)}}

    def __getitem__(self, stage: int) -> dict[int, dict[int, list[list[float]]]]:
        return {0: {batch: [rewards] for batch, rewards in enumerate(self._rewards)}}


def _turns(prompt: str) -> list[dict[str, str]]:
    return [{"role": "system", "content": INSTRUCTION}, {"role": "user", "content": prompt}]


def _configured(config: Any, group_size: int, rate: float) -> Any:
    """Its configuration with those of our values that this release has."""
    known = {field.name for field in fields(config)}
    wanted = {"num_generations": group_size, "learning_rate": rate, "enable_gradient_checkpointing": False}
    return config(**{name: value for name, value in wanted.items() if name in known})


@contextmanager
def _absent(names: Sequence[str]) -> Iterator[None]:
    """Meanwhile these modules can be imported where they are not installed; what is taken from one cannot be called."""
    absent = [name for name in names if name not in sys.modules and not _is_there(name)]
    sys.modules.update({name: _Absent(name) for name in absent})
    try:
        yield
    finally:
        for name in absent:
            del sys.modules[name]


def _is_there(name: str) -> bool:
    """True if importing it would work; torch has its half of tensorboard in any case."""
    needed = "tensorboard" if name == "torch.utils.tensorboard" else name
    return find_spec(needed) is not None


class _Absent(ModuleType):
    """A module in which every name is None."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return None
