"""Settings: declared in settings.py and computing.py; merged from flags, environment, file, preset in sources.py.

constraints, adaptive_rules ─▶ computing, settings, presets ─▶ environment ─▶ sources
"""

from swarm.config.adaptive_rules import ADAPTIVE_RULES, LITERAL_RULES, rule_in_settings
from swarm.config.environment import (
    DAEMONS,
    NOBODY,
    SECRETS,
    StartRequest,
    as_variable,
    asked_in,
    command_line,
    given_variables,
    without_settings,
)
from swarm.config.file_names import EXPERIMENT_NAME, NODE_ID
from swarm.config.from_folder import refuse_unsafe
from swarm.config.names import ADVANTAGE_SCALINGS, FUNCTIONS, IDENTITY_DEFAULTS, JUDGE, LOSSES, SAMPLERS
from swarm.config.settings import IDENTITY, Settings, variable
from swarm.config.sources import load_settings, sources_of

__all__ = [
    "ADAPTIVE_RULES",
    "ADVANTAGE_SCALINGS",
    "DAEMONS",
    "EXPERIMENT_NAME",
    "FUNCTIONS",
    "IDENTITY",
    "IDENTITY_DEFAULTS",
    "JUDGE",
    "LITERAL_RULES",
    "LOSSES",
    "NOBODY",
    "NODE_ID",
    "SAMPLERS",
    "SECRETS",
    "Settings",
    "StartRequest",
    "as_variable",
    "asked_in",
    "command_line",
    "given_variables",
    "load_settings",
    "refuse_unsafe",
    "rule_in_settings",
    "sources_of",
    "variable",
    "without_settings",
]
