"""Settings: declared in settings.py, computing.py, plugins; merged from flags, environment, file, preset in sources.py.

names, constraints ─▶ computing, plugin_settings ─▶ settings ─▶ environment ─▶ sources
"""

from swarm.config.environment import (
    DAEMONS,
    NOBODY,
    StartRequest,
    as_variable,
    asked_in,
    command_line,
    given_variables,
    is_secret,
    secrets,
    with_secrets,
    without_settings,
)
from swarm.config.file_names import EXPERIMENT_NAME, NODE_ID
from swarm.config.from_folder import refuse_unsafe
from swarm.config.names import (
    ADAPTIVE_RULES,
    ADVANTAGE_SCALINGS,
    FUNCTIONS,
    JUDGE,
    LITERAL_RULES,
    LOSSES,
    SAMPLERS,
    rule_in_settings,
)
from swarm.config.plugin_settings import PluginSettings
from swarm.config.settings import Settings, identity_defaults, in_identity, variable
from swarm.config.sources import load_settings, sources_of

__all__ = [
    "ADAPTIVE_RULES",
    "ADVANTAGE_SCALINGS",
    "DAEMONS",
    "EXPERIMENT_NAME",
    "FUNCTIONS",
    "JUDGE",
    "LITERAL_RULES",
    "LOSSES",
    "NOBODY",
    "NODE_ID",
    "SAMPLERS",
    "PluginSettings",
    "Settings",
    "StartRequest",
    "as_variable",
    "asked_in",
    "command_line",
    "given_variables",
    "identity_defaults",
    "in_identity",
    "is_secret",
    "load_settings",
    "refuse_unsafe",
    "rule_in_settings",
    "secrets",
    "sources_of",
    "variable",
    "with_secrets",
    "without_settings",
]
