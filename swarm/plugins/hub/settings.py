"""Declares the settings of pushing models to the Hugging Face Hub."""

from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta

from swarm.config.constraints import setting, whole
from swarm.config.plugin_settings import PluginSettings


@dataclass(frozen=True, kw_only=True)
class HubSettings(PluginSettings):
    """Declares where models are pushed, and how often."""

    section = "Beside the run"

    push_repo: Annotated[str, Meta(pattern=r"^[^/\s]+/[^/\s]+\Z", description="a repository as USER/NAME")] | None = (
        setting(None, "SWARM_PUSH_REPO", up_flag="push", reaches=True)
    )
    """Repository of the Hugging Face Hub to which `swarm up` pushes its workers' models (docs/publishing.md). Of
    several workers, each has its own: `USER/NAME-WORKER`. The token is that of `hf auth login` or HF_TOKEN.
    """
    push_every: Annotated[int, whole(0)] = setting(0, "SWARM_PUSH_EVERY", up_flag="push_every")
    """Push the newest checkpoint every so many rounds, too; 0: only the last one."""
