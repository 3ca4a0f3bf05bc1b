"""Finds what is known to fail before anything starts: a model that cannot be had, a device that cannot be used as
asked.

Settings ─▶ problems, a line each ─▶ up, its --dry-run, plan, node, join, workers, study run: refused; doctor: findings
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from swarm.config import Settings
from swarm.errors import ModelError, NoModelError
from swarm.planner.device_memory import device_memory
from swarm.policy.hub import is_hub_id, look_up
from swarm.policy.model_files import folder_problem, resolve_model
from swarm.policy.opening import strangers_problem
from swarm.policy.settings import bits_problem, unsuited


def problems(settings: Settings) -> list[str]:
    """Returns why a worker with these settings would fail to load its model; empty where nothing speaks against it."""
    models = [model_problem(name, settings.hub_token) for name in dict.fromkeys(settings.model)]
    return [problem for problem in (*models, device_problem(settings), bits_problem(settings)) if problem]


def refusal(found: Iterable[str], models: Iterable[str]) -> ModelError:
    """Returns the error of these problems, a line each: NoModelError where no hub was asked, so that trying again is of
    no use."""
    return (ModelError if any(map(is_hub_id, models)) else NoModelError)("\n".join(found))


def model_problem(name: str, hub_token: str | None = None) -> str:
    """Returns why a model cannot be had; empty if it can. Asks the hub for no more than its names and sizes."""
    try:
        if is_hub_id(name):
            look_up(name, hub_token)
            return ""
        folder = Path(resolve_model(name))
        problem = folder_problem(folder) or strangers_problem(folder)
    except ModelError as error:
        return str(error)
    return f"model {name!r}: {problem}. Check MODEL_NAME" if problem else ""


def device_problem(settings: Settings) -> str:
    """Returns why the device cannot be used, or not with these settings; empty if it can. Free where nothing is asked
    of it."""
    if settings.device in (None, "cpu") and settings.precision != "bf16" and settings.attention != "flash_attention_2":
        return ""
    try:
        device = device_memory(settings.device)
    except ModelError as error:
        return str(error)
    problem = unsuited(settings.precision, settings.attention, is_gpu=device.is_gpu, is_ampere=device.bf16)
    return f"device {device.device!r}: {problem}" if problem else ""
