"""A check of the plan: one generation and one worst-case update, in a child process that may die of them.

    parent ──settings (environment), prompt length──▶ child: load ▶ warm up ▶ generate ▶ update ──peaks──▶ ProbeReport

The parent imports no torch, and what it holds does not count. The child asks the kernel to be the first to go when
memory runs out, and its death is a result like any other. Sizes are bytes: on a GPU what torch reserved, on a CPU the
anonymous memory of the whole process, since pages of libraries are shared and evictable.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from swarm import forms
from swarm.children import child_environment, module_command
from swarm.config import Settings, load_settings, without_settings
from swarm.errors import ModelError
from swarm.instruction import Asking
from swarm.policy.settings import asking_of, compute_threads, grpo_config

if TYPE_CHECKING:
    from swarm.policy.model import LanguageModel
    from swarm.policy.policy import JoinedPolicy
    from swarm.types import Completion, TrainGroup

TIMEOUT_S = 600.0
_NEVER_SAMPLED = -1
_OOM_SCORE_FIRST = "1000"
_RESET_PEAK = "5"
"""What clear_refs takes for "begin a new VmHWM" (proc_pid_clear_refs(5))."""


class ProbeReport(msgspec.Struct, frozen=True):
    """Holds what one node really took at its highest points; None where it did not get so far."""

    loaded: int | None = None
    """Weights and gradients, moments and whatever the device's libraries allocated."""
    generation: int | None = None
    """Peak of generating at full length."""
    update: int | None = None
    """Peak of the update."""
    generation_s: float | None = None
    """Seconds of generating."""
    update_s: float | None = None
    """Seconds of the update."""
    problem: str | None = None
    """Why it ended early: out of memory, killed, too slow, or the model's own error; or what it had to do to go on."""
    refuted: bool = False
    """The step cannot be done, or not in pieces as large as planned: anything but too slow."""

    @property
    def peak(self) -> int | None:
        """Returns the highest point, None if it did not get to the end."""
        return None if self.generation is None or self.update is None else max(self.generation, self.update)


class ProbeTask(msgspec.Struct, frozen=True):
    """Holds what the child is told beside the settings."""

    prompt_tokens: int
    new_tokens: int


def probe(
    settings: Settings, task: ProbeTask, environ: Mapping[str, str] = os.environ, *, timeout_s: float = TIMEOUT_S
) -> ProbeReport:
    """Run one step of one node with these settings (of the first model) in a child process, and report its peaks."""
    told = child_environment(
        {**without_settings(environ), **replace(settings, model=settings.model[:1]).as_environment()}
    )
    command = module_command("swarm.planner.probe", msgspec.json.encode(task).decode())
    try:
        done = subprocess.run(command, check=False, capture_output=True, env=told, timeout=timeout_s)
    except subprocess.TimeoutExpired:
        return ProbeReport(problem=f"not done after {timeout_s:g} s")
    reports = [line for line in done.stdout.splitlines() if line.startswith(b"{")]
    report = forms.decode(reports[-1], ProbeReport) if reports else ProbeReport()
    if done.returncode == 0 or report.problem:
        return report
    return msgspec.structs.replace(report, problem=_cause_of_death(done.returncode, done.stderr), refuted=True)


def _cause_of_death(exit_code: int, stderr: bytes) -> str:
    if exit_code == -signal.SIGKILL:
        return "killed, as the kernel does when memory runs out"
    lines = stderr.decode("utf-8", "replace").strip().splitlines()
    return f"exit code {exit_code}: {lines[-1] if lines else 'no message'}"


def run_steps(settings: Settings, task: ProbeTask, tell: Any) -> None:
    """The child's work; tell(report) is called after every step, since the next one may be the last.

    Raises:
        ModelError: the model cannot be loaded, or does not fit.
    """
    import torch

    if threads := compute_threads(settings):
        torch.set_num_threads(threads)
    policy, model = _policy(settings, task)
    gauge = _Gauge(model.device)
    prompts = _prompts(model, task.prompt_tokens, settings.most_local_groups, _asking(settings, model))
    warm_up = policy.generate(prompts[:1], group_size=2, seed=settings.seed)
    first = policy.finish_update(_groups(prompts[:1], warm_up))  # Adam's moments are there from now on
    report = ProbeReport(loaded=gauge.peak())
    tell(report)
    gauge.reset()
    begun = time.perf_counter()
    completions = policy.generate(prompts, group_size=settings.generations, seed=settings.seed)
    report = msgspec.structs.replace(report, generation=gauge.peak(), generation_s=time.perf_counter() - begun)
    tell(report)
    gauge.reset()
    begun = time.perf_counter()
    groups = _groups(prompts, completions, others=settings.total_groups - len(prompts))
    policy.begin_update(groups[:1])  # all gradients are there when the largest micro-batch comes
    second = policy.finish_update(groups[1:])
    report = msgspec.structs.replace(report, update=gauge.peak(), update_s=time.perf_counter() - begun)
    tell(_judged(report, halvings=first.memory_halvings + second.memory_halvings))


def _policy(settings: Settings, task: ProbeTask) -> tuple[JoinedPolicy, LanguageModel]:
    """Makes the policy of one node, and its model, which writes no end of text."""
    from swarm.policy.generator import ModelGenerator
    from swarm.policy.lora import AdaptedBase
    from swarm.policy.memory import Halvings
    from swarm.policy.model import load_model
    from swarm.policy.policy import JoinedPolicy, make_policy
    from swarm.policy.shared_base import SharedBase
    from swarm.policy.trainer import ModelTrainer

    config = replace(grpo_config(settings), max_new_tokens=task.new_tokens)
    loaded = load_model(
        settings.model[0],
        device=settings.device,
        hub_token=settings.hub_token,
        max_new_tokens=task.new_tokens,
        precision=settings.precision,
        attention=settings.attention,
        frozen=config.adapter is not None,
        bits=config.adapter.base_bits if config.adapter else None,
    )
    config = replace(config, asking=_asking(settings, loaded))
    model = replace(loaded, eos_ids=frozenset({_NEVER_SAMPLED}))  # every completion gets as long as it may
    if config.adapter is None:
        return make_policy(model, config), model
    shared = SharedBase(model, AdaptedBase(settings.model[0], model.module, config.adapter.targets))
    adapted = shared.join(config.adapter)
    halvings = Halvings()
    generator = ModelGenerator(adapted, config, halvings, shared)
    return JoinedPolicy(generator, ModelTrainer(adapted, config, halvings)), adapted


def _asking(settings: Settings, model: LanguageModel) -> Asking:
    from swarm.policy.asked_well import suited

    return suited(model.name, model.tokenizer, asking_of(settings), model.not_embedded)


def _judged(report: ProbeReport, *, halvings: int) -> ProbeReport:
    """Peaks that were reached with less than what was planned do not confirm it."""
    if not halvings:
        return report
    problem = f"out of memory, and done in smaller pieces than planned (halvings: {halvings})"
    return msgspec.structs.replace(report, problem=problem, refuted=True)


def _prompts(model: LanguageModel, tokens: int, number: int, asking: Asking) -> list[str]:
    """Questions whose prompts have at most so many tokens, every other a little less, so that padding is masked."""
    longest = _question(model, tokens, asking)
    shorter = longest[: max(1, len(longest) - 8)]
    return [longest if index % 2 == 0 else shorter for index in range(number)]


def _question(model: LanguageModel, tokens: int, asking: Asking) -> str:
    from swarm.policy.prompt import encode_prompt

    def overflows(repeats: int) -> bool:
        return len(encode_prompt(model.tokenizer, "7 " * repeats, asking)) > tokens

    return "7 " * max(1, bisect_left(range(1, tokens + 1), True, key=overflows))  # more digits never make fewer tokens


def _groups(
    prompts: Sequence[str], completions: Sequence[tuple[Completion, ...]], *, others: int = 0
) -> list[TrainGroup]:
    """Returns groups in which every completion carries a gradient, and as many again as peers would give."""
    from swarm.types import TrainGroup

    own = [
        TrainGroup(prompt, group, tuple(1.0 if index % 2 else -1.0 for index in range(len(group))))
        for prompt, group in zip(prompts, completions, strict=True)
    ]
    return own + [own[index % len(own)] for index in range(others)]


class _Gauge:
    """Measures on a GPU what torch's allocator took of it; else the anonymous memory of this process: the kernel's
    high-water mark, without the pages of files in it."""

    def __init__(self, device: Any) -> None:
        """`device`: torch's."""
        import torch

        self._device = device
        self._cuda: Any = torch.cuda if device.type == "cuda" else None

    def reset(self) -> None:
        """Begin a new peak at what is held now."""
        if self._cuda:
            self._cuda.empty_cache()
            self._cuda.reset_peak_memory_stats(self._device)
            return
        with suppress(OSError):  # not everywhere permitted; the peak is then that of all steps so far
            Path("/proc/self/clear_refs").write_text(_RESET_PEAK, "utf-8")

    def peak(self) -> int:
        """Largest use since the reset, bytes."""
        if self._cuda:
            return int(self._cuda.max_memory_reserved(self._device))
        status = _status()
        return status["VmHWM"] - status["RssFile"] - status["RssShmem"]


def _status() -> dict[str, int]:
    """Sizes in /proc/self/status, in bytes."""
    lines = (line.split() for line in Path("/proc/self/status").read_text("utf-8").splitlines())
    return {words[0].rstrip(":"): int(words[1]) * 1024 for words in lines if words[-1] == "kB"}


def _child(arguments: Sequence[str], environ: Mapping[str, str]) -> int:
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(_OOM_SCORE_FIRST, "utf-8")
    reported = ProbeReport()

    def tell(report: ProbeReport) -> None:
        nonlocal reported
        reported = report
        sys.stdout.buffer.write(msgspec.json.encode(report) + b"\n")
        sys.stdout.flush()

    try:
        run_steps(load_settings({}, environ), forms.decode(arguments[0], ProbeTask), tell)
    except (ModelError, MemoryError) as error:
        tell(msgspec.structs.replace(reported, problem=str(error) or "out of memory", refuted=True))
    return 0


if __name__ == "__main__":
    sys.exit(_child(sys.argv[1:], os.environ))
