"""Settings: declared in settings.py, computing.py, plugins; merged from flags, environment, file, preset in sources.py.

names, constraints ─▶ computing, plugin_settings ─▶ settings ─▶ environment ─▶ sources
"""

from swarm.config.environment import DAEMONS as DAEMONS
from swarm.config.environment import NOBODY as NOBODY
from swarm.config.environment import StartRequest as StartRequest
from swarm.config.environment import as_variable as as_variable
from swarm.config.environment import asked_in as asked_in
from swarm.config.environment import command_line as command_line
from swarm.config.environment import given_variables as given_variables
from swarm.config.environment import is_secret as is_secret
from swarm.config.environment import secrets as secrets
from swarm.config.environment import with_secrets as with_secrets
from swarm.config.environment import without_settings as without_settings
from swarm.config.file_names import EXPERIMENT_NAME as EXPERIMENT_NAME
from swarm.config.file_names import NODE_ID as NODE_ID
from swarm.config.from_folder import refuse_unsafe as refuse_unsafe
from swarm.config.names import ADAPTIVE_RULES as ADAPTIVE_RULES
from swarm.config.names import ADVANTAGE_SCALINGS as ADVANTAGE_SCALINGS
from swarm.config.names import FUNCTIONS as FUNCTIONS
from swarm.config.names import JUDGE as JUDGE
from swarm.config.names import LITERAL_RULES as LITERAL_RULES
from swarm.config.names import LOSSES as LOSSES
from swarm.config.names import SAMPLERS as SAMPLERS
from swarm.config.names import rule_in_settings as rule_in_settings
from swarm.config.plugin_settings import PluginSettings as PluginSettings
from swarm.config.settings import Settings as Settings
from swarm.config.settings import identity_defaults as identity_defaults
from swarm.config.settings import in_identity as in_identity
from swarm.config.settings import variable as variable
from swarm.config.sources import load_settings as load_settings
from swarm.config.sources import sources_of as sources_of
