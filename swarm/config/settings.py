"""Every setting: its name, the values it may have, its default, its variables and flags, and what it means.

A setting is declared here alone, in the section in which people look for it; `swarm settings`, the command-line flags,
docs/settings.md and the messages are derived from the declaration, and have its order.
"""

import shlex
from collections.abc import Mapping
from dataclasses import Field, dataclass, field, fields, replace
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import msgspec

from swarm.config.computing import GenerationSettings, ModelSettings, TrainingSettings
from swarm.config.constraints import (
    Names,
    Table,
    Text,
    WorkerNames,
    above,
    as_text,
    named,
    one_of_or_own,
    real,
    setting,
    whole,
)
from swarm.config.file_names import EXPERIMENT_NAME, NODE_ID
from swarm.config.names import ADAPTIVE_RULES, IDENTITY_DEFAULTS, MEASURING_RULES, QUICK, SAMPLERS, recorded_rule
from swarm.config.own_code import TASK_TABLE, names_code, plain
from swarm.config.place import is_url, place_of
from swarm.config.plugin_settings import KnownSettings, PluginSettings
from swarm.config.tables import SettingSection, SettingTable
from swarm.config.task_table import TaskTable, recorded
from swarm.errors import ConfigError
from swarm.harmless import printable, quoted
from swarm.types import FIRST_FAMILY

Declared = TypeVar("Declared", bound=PluginSettings)


@dataclass(frozen=True, kw_only=True)
class TermsTable(SettingTable):
    """Declares the terms of texts."""

    licence: Text | None = setting(None, "SWARM_LICENCE")
    """The licence of the texts that this node publishes, as an SPDX id (`CC-BY-4.0`); peers' model cards name it."""
    consent: Literal["train", "train+publish"] | None = setting(None, "SWARM_CONSENT")
    """What the author of this node's texts agrees to: that others train on them, and with `+publish` that others
    publish them again. None: nothing is said. Peers' model cards name it.
    """
    licences: Names | None = setting(None, "SWARM_LICENCES")
    """Licences of peers' texts that this node takes (`CC0-1.0,CC-BY-4.0`); `none` stands for texts that name none.
    None: any.
    """


@dataclass(frozen=True, kw_only=True)
class CadenceTable(SettingTable):
    """Declares how often a node shows itself and looks at others."""

    heartbeat_interval: Annotated[float, above(0)] = setting(1.0, "SWARM_HEARTBEAT_INTERVAL")
    """Seconds between a node's heartbeats. In a bucket 60 unless it is set."""
    liveness_timeout: Annotated[float, above(0)] = setting(15.0, "SWARM_LIVENESS_TIMEOUT")
    """A node whose heartbeat has not moved for so many seconds counts as dead. In a bucket 240 unless it is set."""
    reconcile_interval: Annotated[float, above(0)] = setting(2.0, "SWARM_RECONCILE_INTERVAL")
    """Seconds between two listings of the folder, whatever the watcher says. In a bucket 10 unless it is set, and only
    while a node waits for something."""
    watch: Literal["auto", "off"] = setting("auto", "SWARM_WATCH")
    """`off` finds everything by listing alone."""


@dataclass(frozen=True, kw_only=True)
class LimitsTable(SettingTable):
    """Declares the bounds on what peers send."""

    max_file_bytes: Annotated[int, whole(1024)] = setting(8 * 2**20, "SWARM_MAX_FILE_BYTES")
    """A peer's file above this is refused unread."""
    peer_groups: Annotated[int, whole(1, 1024)] = setting(64, "SWARM_PEER_GROUPS")
    """Groups of one peer and round that are scored, with 16 completions for each; a file with more is refused."""
    completion_characters: Annotated[int, whole(1)] | None = setting(None, "SWARM_COMPLETION_CHARACTERS")
    """Characters of the longest completion of a peer that is taken; a group with a longer one is refused. None: 64 for
    each token of SWARM_MAX_NEW_TOKENS (256 where that is not set)."""
    pool_bytes: Annotated[int, whole(2**16)] = setting(64 * 2**20, "SWARM_POOL_BYTES")
    """Bytes of memory for the groups of all peers; when it is full, groups of the largest files are dropped."""
    max_peers: Annotated[int, whole(1, 65536)] = setting(256, "SWARM_MAX_PEERS")
    """Peers whose files are read in one round, live ones first; the names beyond are counted."""
    quarantine_rounds: Annotated[int, whole(0)] = setting(20, "SWARM_QUARANTINE_ROUNDS")
    """If most groups of a peer were refused, nothing is read from it for so many rounds; 0: never."""


@dataclass(frozen=True, kw_only=True)
class PlaceSettings(SettingSection):
    """Declares where a node is, and which one it is."""

    section = "Place and node"
    path: Text = setting("./runs", "GDRIVE_PATH", "SWARM_PATH")
    """The shared place: a folder, or a bucket such as `s3://bucket/prefix`, `gs://...`, `az://...` (extra `bucket`);
    `s3://bucket/prefix?endpoint=URL` for any other server that speaks S3; `https://HOST/FOLDER` of a WebDAV server."""
    mirror: Text | None = setting(None, "SWARM_MIRROR", up_flag="mirror", first=True, reaches=True)
    """`swarm up` and `swarm study run` copy the run into this place every ten seconds. Where the shared place is gone
    or behind it, the next start brings the run back from there."""
    experiment: Annotated[str, named(EXPERIMENT_NAME, "a folder name", 128)] = setting(
        "default_experiment", "EXPERIMENT_NAME"
    )
    """Name of the experiment, a folder under {path}/experiments."""
    role: Literal["worker", "generator", "evaluator", "coordinator", "person"] = setting(
        "worker", "NODE_ROLE", node_flag="role", first=True
    )
    """`worker` trains; `generator` answers and trains nothing; `evaluator` only verifies what others answer;
    `coordinator` owns the round clock; `person` is what `swarm answer` starts."""
    node_id: Annotated[str, named(NODE_ID, "a node id", 64)] | None = setting(
        None, "NODE_ID", node_flag="node_id", first=True
    )
    """Unique per node; None: a readable one is generated."""
    awaited: bool = setting(False, "SWARM_AWAITED")
    """For a generator or person: workers wait for its groups, and the clock waits for its rounds."""
    log_level: Literal["debug", "info", "warning", "error"] = setting("info", "SWARM_LOG_LEVEL", run_flag="log_level")
    """What the terminal shows; the folder gets info and above always."""


@dataclass(frozen=True, kw_only=True)
class ExperimentSettings(SettingSection):
    """Declares what is asked, how often, and how hard it is."""

    section = "The experiment"
    seed: Annotated[int, whole(0)] = setting(42, "SEED", run_flag="seed", first=True)
    """Seeds every draw of the run: questions, sampling, external groups."""
    max_rounds: Annotated[int, whole(1)] = setting(2000, "MAX_ROUNDS", run_flag="rounds", first=True)
    """Rounds of the experiment; an experiment that is finished goes on if asked for more."""
    local_groups: Annotated[int, whole(1)] = setting(8, "NUM_TRAIN_SAMPLES", run_flag="local", first=True)
    """I: own rollout groups per round."""
    external_groups: Annotated[int, whole(0)] = setting(0, "NUM_TRANSPLANT_TREES", run_flag="external", first=True)
    """J: peers' rollout groups per round."""
    generations: Annotated[int, whole(2, 1024)] = setting(8, "NUM_GENERATIONS", run_flag="generations", first=True)
    """G: completions per group."""
    profile: Literal["tiny-3", "tiny-2", "tiny", "paper-2", "paper", "rl-swarm"] = setting(
        "tiny-3", "SWARM_PROFILE", run_flag="profile"
    )
    """Difficulty and scoring: `tiny-3` suits the embedded models, `paper-2` real ones. If you name no profile and begin
    an experiment with a real model, it is `paper-2`. The others repeat earlier runs."""
    tasks: Names | None = setting(None, "SWARM_TASKS", run_flag="tasks", first=True)
    """Tasks that the run asks: names, or files of your own such as `mine.jsonl` (docs/tasks.md). A task of another
    family is `family/task`. None: all tasks of the settings file, or, if it has none, those of the profile.
    """
    task_table: TaskTable | None = setting(None, "SWARM_TASK_TABLE")
    """Tasks with your own parameters, datasets and scorers (docs/tasks.md)."""
    mixture: Names | None = setting(None, "SWARM_MIXTURE", run_flag="mixture")
    """The run's tasks that this node asks, with weights, such as `chain_sum=2+bf`. A node keeps them for the whole run.
    `swarm up` deals a list out over its workers. None: all, by the weights of the task table.
    """
    task_families: Names = setting((FIRST_FAMILY,), "SWARM_TASK_FAMILIES")
    """Where questions come from: names of ours, or your own `package.module:object` (see swarm.tasks.family)."""
    test_mode: bool = setting(False, "TEST_MODE", run_flag="test", first=True)
    """Quick validation: 3 rounds, I = 4, G = 4."""
    max_stages: Annotated[int, whole(1, 16)] = setting(1, "MAX_STAGES", run_flag="stages")
    """Stages per round: in each after the first a question is asked again, with answers to it (docs/stages.md)."""
    revise: Table | None = setting(None, "SWARM_REVISE")
    """How later stages ask: templates, and how many answers are shown (docs/stages.md); None: the built-in ones."""


@dataclass(frozen=True, kw_only=True)
class SharingSettings(SettingSection):
    """Declares what is published, and how peers' groups are drawn."""

    section = "Sharing"
    sampler: Annotated[str, one_of_or_own(*SAMPLERS)] = setting("uniform", "SWARM_SAMPLER", run_flag="sampler")
    """How the J external groups are drawn from the informative ones of the pool."""
    peer_share: Annotated[float, above(0, 1)] = setting(1.0, "SWARM_PEER_SHARE")
    """The largest share of a round's J external groups from one peer; one group is always allowed. With too few peers,
    fewer groups are trained on (docs/bounds.md).
    """
    staleness: Annotated[int, whole(0, 1)] = setting(0, "SWARM_STALENESS", run_flag="staleness")
    """1: generate the next round's groups while this round's are gathered and trained on, one update behind."""
    publish_logprobs: bool = setting(False, "SWARM_PUBLISH_LOGPROBS")
    """Publish token ids and log-probs beside the text, for peers with the same tokenizer (SWARM_IMPORTANCE_CAP)."""
    terms: TermsTable = setting(TermsTable(), "SWARM_TERMS")
    """Under which terms texts are published, and which peers' texts are taken in (docs/generators.md)."""
    importance_cap: Annotated[float, real(0)] | None = setting(None, "SWARM_IMPORTANCE_CAP")
    """A token whose publisher gives log-probs is weighed by min(this, own / publisher's probability). None or 0: no
    weighing.
    """
    publish_frequency: Literal["generation", "stage", "round"] = setting("stage", "ROLLOUT_PUBLISH_FREQUENCY")
    """When groups are published: `stage` with every stage, `round` once per round, `generation` each as soon as its
    completions are written. Nodes of one run may differ."""


@dataclass(frozen=True, kw_only=True)
class AdaptiveSettings(SettingSection):
    """Declares how I and J change."""

    section = "Adaptive I and J"
    adaptive: bool = setting(False, "ADAPTIVE_IJ_ENABLED", run_flag="adaptive")
    """Let I and J follow the rewards; I + J stays constant."""
    adaptive_rule: Annotated[str, one_of_or_own(*ADAPTIVE_RULES)] = setting(
        "gradient", "SWARM_ADAPTIVE_RULE", run_flag="adaptive_rule"
    )
    """The rule that moves J (docs/adaptive.md). `gradient`, `reward-trend` and `multi-signal` follow their source to
    the letter. The `-scaled` ones measure rewards in units of their spread, and J as a share of I + J.
    """
    adaptive_alpha: Annotated[float, above(0, 1)] = setting(0.1, "ADAPTIVE_IJ_ALPHA")
    """Step size: `gradient`: J += alpha (reward - baseline); scaled rules: J += alpha (I + J) signal; `supply`: the
    weight of a new round in its averages. `reward-trend` and `multi-signal` have steps of 1."""
    adaptive_baseline_alpha: Annotated[float, real(0, 1)] = setting(0.95, "ADAPTIVE_IJ_BASELINE_ALPHA")
    """Memory of the reward baseline: baseline = memory baseline + (1 - memory) reward. In scaled rules it begins as a
    plain mean; with 1 it stays one."""
    adaptive_initial_j: Annotated[float, real(0)] | None = setting(None, "ADAPTIVE_IJ_INITIAL_J")
    """J to begin with; None: (I + J) / 2, or the nearest J that is allowed."""
    adaptive_min_j: Annotated[int, whole(0)] = setting(0, "ADAPTIVE_IJ_MIN_J")
    """The smallest J of an adaptive rule."""
    adaptive_max_j: Annotated[int, whole(0)] | None = setting(None, "ADAPTIVE_IJ_MAX_J")
    """The largest J of an adaptive rule; None: I + J - 1, so that a node always has one own group."""


@dataclass(frozen=True, kw_only=True)
class ClockSettings(SettingSection):
    """Declares who opens rounds, and how long others are waited for."""

    section = "Clock and liveness"
    clock: Literal["coordinator", "own"] = setting("coordinator", "SWARM_CLOCK")
    """Who says which round comes next: a coordinator, or every node for itself."""
    round_interval: Annotated[float, above(0)] = setting(60.0, "COORDINATOR_ROUND_INTERVAL", run_flag="round_interval")
    """Seconds that a round stays open at most."""
    expected_workers: Annotated[int, whole(1)] | WorkerNames | None = setting(
        None, "SWARM_EXPECTED_WORKERS", node_flag="expected_workers"
    )
    """Round 0 waits for these workers: a number of them, or names or public keys (`anna,ben`). After one round interval
    one of them is enough. Strangers can fill a number; with names, only these move the clock. None: SWARM_SETTLE_TIME
    decides.
    """
    settle_time: Annotated[float, real(0)] = setting(15.0, "SWARM_SETTLE_TIME", node_flag="settle_time")
    """Without expected workers, round 0 opens when a worker is ready, none is loading, and no new one has come for so
    many seconds. It opens at the latest two round intervals after the first was ready. In a bucket the wait is at least
    two heartbeat intervals. 0: no wait for new ones.
    """
    standby: bool = setting(False, "SWARM_STANDBY", node_flag="standby")
    """A coordinator that waits until no other is alive, and takes the clock over then."""
    coordinator_patience: Annotated[float, above(0)] | None = setting(None, "SWARM_COORDINATOR_PATIENCE")
    """Seconds without a live coordinator after which workers go on by themselves; None: twice the round interval."""
    staleness_window: Annotated[int, whole(0, 1000)] = setting(2, "SWARM_STALENESS_WINDOW")
    """Without a coordinator: how many rounds a peer's groups may be older or newer than the node's own round."""
    cadence: CadenceTable = setting(CadenceTable(), "SWARM_CADENCE")
    """How often a node beats and looks, and when it counts as dead. A bucket has other defaults."""


@dataclass(frozen=True, kw_only=True)
class KeepingSettings(SettingSection):
    """Declares what is kept on disk."""

    section = "Checkpoints and old files"
    checkpoint_interval: Annotated[int, whole(0)] = setting(100, "CHECKPOINT_INTERVAL", run_flag="checkpoint_interval")
    """Rounds between checkpoints; 0: only at the stop."""
    checkpoint_keep: Annotated[int, whole(1)] = setting(2, "CHECKPOINT_KEEP")
    """How many of a node's own checkpoints stay on disk."""
    stop_seconds: Annotated[float, above(0)] = setting(20.0, "SWARM_STOP_SECONDS")
    """For so many seconds a node that a signal stops writes its last checkpoint into the shared place. Then it keeps it
    in its own state folder, from which its next start on this machine goes on. Give containers a longer grace."""
    redo_rounds: Annotated[int, whole(0)] = setting(100, "SWARM_REDO_ROUNDS")
    """A killed node redoes up to so many rounds since its last checkpoint, and then has the weights that it had. If it
    lost more rounds, it goes on with the checkpoint's weights. 0: it redoes none.
    """
    cleanup: bool = setting(False, "ROLLOUT_CLEANUP_ENABLED")
    """Delete the rollouts of old rounds as the run goes on; workers do so by turns (docs/retention.md)."""
    keep_last_rounds: Annotated[int, whole(1)] = setting(10, "ROLLOUT_KEEP_LAST_N_ROUNDS")
    """Rounds of rollouts that a cleanup leaves, at least 3. Where older ones are deleted, those since each worker's
    newest checkpoint stay as well."""
    archive_old: bool = setting(False, "ROLLOUT_ARCHIVE_OLD")
    """A cleanup moves old rollouts to {path}/archives/{experiment}/rollouts instead of deleting them."""


@dataclass(frozen=True, kw_only=True)
class PeerSettings(SettingSection):
    """Declares which peers are believed, and how much is taken of them."""

    section = "Peers"
    limits: LimitsTable = setting(LimitsTable(), "SWARM_LIMITS")
    """How much is taken of what peers send (docs/doors.md)."""
    signing: Literal["off", "on", "require"] = setting("off", "SWARM_SIGNING")
    """`on`: sign what is published, and hold each peer to its first key; `require`: also refuse unsigned files. Needs
    the extra `signing`, and a key (`swarm keys new`).
    """
    key_folder: Text = setting("~/.swarm", "SWARM_KEY_FOLDER", reaches=True)
    """Folder of this user's key and of the first key of each peer; never in the shared folder."""


@dataclass(frozen=True, kw_only=True)
class Settings(
    PeerSettings,
    KeepingSettings,
    ClockSettings,
    AdaptiveSettings,
    SharingSettings,
    TrainingSettings,
    GenerationSettings,
    ModelSettings,
    ExperimentSettings,
    PlaceSettings,
):  # a dataclass has the fields of its last base first
    """Everything a node needs to know before it starts. Times are seconds, sizes bytes."""

    held: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """Settings of plugins (plugin_settings.py) that are not at their defaults -> value; no setting itself."""

    def of(self, plugin: type[Declared]) -> Declared:
        return plugin(**{f.name: self.held[f.name] for f in fields(plugin) if f.name in self.held})

    def value(self, name: str) -> Any:
        """Returns the value of a setting, whoever declares it. Raises KeyError: there is none of that name."""
        if name in FIELDS.core:
            return FIELDS.tables.value(self, name)
        return self.held.get(name, FIELDS[name].default)

    def with_values(self, values: Mapping[str, Any]) -> "Settings":
        """Returns these settings with other values for some of them, whoever declares them."""
        own = {name: value for name, value in values.items() if name in FIELDS.core}
        held = {**self.held, **{name: value for name, value in values.items() if name not in own}}
        held = {name: value for name, value in held.items() if value != FIELDS[name].default}
        return replace(self, **FIELDS.tables.nested(self, own), held=held)

    @property
    def plugins(self) -> tuple[str, ...]:
        """Returns the names of the plugins that are on: those of which some setting is not at its default."""
        declarations = (FIELDS.declaration_of(name) for name in self.held)
        return tuple(dict.fromkeys(one.plugin for one in declarations if one))

    def of_a_node(self) -> "Settings":
        """Returns these settings without those of what `swarm up` starts beside its nodes: they are not theirs, and
        their records need not repeat them."""
        beside = {name: f.default for name, f in FIELDS.items() if f.metadata["up_flag"]}
        return self.with_values(beside)

    @property
    def trains(self) -> bool:
        return self.role == "worker"

    @property
    def registered_role(self) -> str:
        """Returns the role that peers see: who is waited for is a worker to them, whether it trains or not."""
        return "worker" if self.trains or self.awaited else self.role

    @property
    def loads_model(self) -> bool:
        """Tells whether this node computes with a model of its own."""
        return self.role in ("worker", "generator") and self.endpoint is None

    @property
    def place(self) -> str:
        """Returns the shared place by the name that all processes have for it: an absolute path, or a bucket's URL.

        Raises:
            ConfigError: it is a URL, and none of a bucket.
        """
        return place_of(self.path)

    @property
    def shared_folder(self) -> Path:
        """Returns the shared folder as an absolute path, for what works in a folder alone.

        Raises:
            ConfigError: the shared place is no folder.
        """
        if is_url(self.path):
            raise ConfigError(f"this works in a folder alone, and {self.place} is none: name a folder with --path")
        return Path(self.place)

    @property
    def sparing(self) -> bool:
        """Each request to the shared place is paid for: nodes look only while they wait for something."""
        return is_url(self.path)

    @property
    def private_folder(self) -> Path:
        return Path(self.key_folder).expanduser().absolute()

    @property
    def expected_count(self) -> int | None:
        """Returns how many workers are expected; None: as many as come."""
        return len(self.expected_workers) if isinstance(self.expected_workers, tuple) else self.expected_workers

    @property
    def expected_names(self) -> frozenset[str]:
        """Returns the names and public keys of those that are expected; none where any will do."""
        return frozenset(self.expected_workers) if isinstance(self.expected_workers, tuple) else frozenset()

    @property
    def seconds_to_settle(self) -> float:
        """Returns the seconds without a new worker until round 0 opens; in a bucket registrations are seen a heartbeat
        late."""
        least = 2 * self.cadence.heartbeat_interval if self.sparing and self.settle_time else 0.0
        return max(self.settle_time, least)

    @property
    def total_groups(self) -> int:
        """N = I + J, the same whether they are adaptive or not."""
        return self.local_groups + self.external_groups

    @property
    def most_local_groups(self) -> int:
        return self.total_groups - self.adaptive_min_j if self.adaptive else self.local_groups

    @property
    def most_external_groups(self) -> int:
        return self.max_j if self.adaptive else self.external_groups

    @property
    def peer_slots(self) -> int:
        """Returns how many groups of each peer take part in the draw: all of them, of peers of the same settings."""
        own = self.most_local_groups * self.dynamic_sampling
        return min(max(own, self.most_external_groups), self.limits.peer_groups)

    @property
    def shares(self) -> bool:
        """Tells whether peers' groups are gathered: with adaptive I/J in every round, those with J = 0 included, so
        that no round differs from another, or from one of a fixed split, by whom it waited for."""
        return self.most_external_groups > 0 or self.role == "evaluator"

    @property
    def patience_with_coordinator(self) -> float:
        """Returns seconds without a live coordinator after which a worker goes on by itself."""
        return 2 * self.round_interval if self.coordinator_patience is None else self.coordinator_patience

    @property
    def initial_j(self) -> float:
        middle = min(max(self.total_groups / 2, self.adaptive_min_j), self.max_j)
        return middle if self.adaptive_initial_j is None else self.adaptive_initial_j

    @property
    def max_j(self) -> int:
        return self.total_groups - 1 if self.adaptive_max_j is None else self.adaptive_max_j

    @property
    def needs_halves(self) -> bool:
        """Tells whether the adaptive rule goes by what is measured of the gradient's halves."""
        return self.adaptive and self.adaptive_rule in MEASURING_RULES

    @property
    def token_weight_cap(self) -> float:
        """Returns the importance cap that is in force."""
        return self.importance_cap or 0.0

    def experiment_identity(self) -> dict[str, Any]:
        """Returns the settings that make two runs the same experiment; a running one refuses to go on with others.

        What IDENTITY_DEFAULTS names is left out where it has the value given there.
        """
        identity = {
            name: self.value(name) for name in ("seed", "local_groups", "external_groups", "generations", "profile")
        }
        identity["tasks"] = list(self.tasks) if self.tasks else None
        chosen = {
            name: self.value(name)
            for name in (
                *("sampler", "clock", "loss", "advantage_scaling", "empty_update", "max_stages", "revise"),
                "dynamic_sampling",
            )
        }
        table = self.task_table and {name: recorded(asked) for name, asked in self.task_table.items()}
        chosen |= {"task_families": list(self.task_families), "task_table": table}
        if self.adaptive:
            names = ("adaptive", "adaptive_alpha", "adaptive_baseline_alpha")
            identity |= {name: self.value(name) for name in names}
            identity |= {"adaptive_rule": recorded_rule(self.adaptive_rule), "adaptive_initial_j": self.initial_j}
            highest = None if self.max_j == self.total_groups - 1 else self.max_j
            chosen |= {"adaptive_min_j": self.adaptive_min_j, "adaptive_max_j": highest}
        identity |= {name: value for name, value in chosen.items() if value != IDENTITY_DEFAULTS[name]}
        identity |= {name: value for name, value in self.held.items() if FIELDS[name].metadata["identity"]}
        return {name: plain(value) for name, value in identity.items()}

    def as_recorded(self) -> dict[str, Any]:
        """Returns every setting as JSON has it, those at their defaults included; no secrets."""
        shown = (name for name, f in FIELDS.items() if not f.metadata["secret"])
        values = {name: plain(self.value(name)) for name in shown}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}

    def as_environment(self) -> dict[str, str]:
        """Returns the variables that give another process these settings, if it has no others (see `without_settings`).

        Those at their defaults are left out, but for the ones that test mode would set otherwise.

        Raises:
            ConfigError: as `as_variables`.
        """
        stated = set(QUICK if self.test_mode else ())
        if any(self.value(name) != FIELDS[name].default for name in ADAPTIVE):
            stated.add("adaptive")  # off on purpose, or on: see swarm.config.sources
        values = {name: (self.value(name), f.default) for name, f in FIELDS.items()}
        return as_variables({name: value for name, (value, at) in values.items() if name in stated or value != at})


LONGEST_TYPED = 200
"""Characters of a value that a message tells to type."""
FIELDS = KnownSettings(Settings)
"""Every setting, the plugins' included."""
ADAPTIVE = tuple(name for name in FIELDS.core if name.startswith("adaptive"))
"""The settings that are of use only while I and J are adaptive, and the one that makes them so."""
IDENTITY = frozenset(IDENTITY_DEFAULTS) | frozenset(Settings(adaptive=True).experiment_identity())
"""The core's settings that an experiment's identity may hold."""
msgspec.convert(vars(Settings()), Settings)  # a default that its own constraint forbids fails at import


def in_identity(name: str) -> bool:
    """Tells whether an experiment's identity may hold a setting: whatever else a folder says there is no setting of
    it."""
    return name in IDENTITY or (name in FIELDS and bool(FIELDS[name].metadata["identity"]))


def identity_defaults() -> dict[str, Any]:
    """Returns what an experiment has whose identity does not say it."""
    return IDENTITY_DEFAULTS | {name: plain(f.default) for name, f in FIELDS.items() if f.metadata["identity"]}


def variable(name: str) -> str:
    """Returns the environment variable of a setting, as users know it."""
    env: tuple[str, ...] = FIELDS[name].metadata["env"]
    return env[0]


def flags_of(declared: Field[Any]) -> list[str]:
    """Returns the flags that a setting's declaration names, one for each kind of commands that has it."""
    kinds = ("run_flag", "node_flag", "up_flag")  # see swarm.config.constraints.setting
    return [declared.metadata[kind] for kind in kinds if declared.metadata[kind]]


def flag_of(name: str) -> str:
    """Returns the flag that a setting's declaration names, such as `--rounds`; empty: it names none."""
    return next((f"--{flag.replace('_', '-')}" for flag in flags_of(FIELDS[name])), "")


def both_names(name: str) -> str:
    """Returns a setting's variable and its name in a settings file, for messages: `SWARM_MAX_PEERS
    (limits.max_peers)`."""
    return f"{variable(name)} ({FIELDS.tables.shown(name)})"


def as_variables(values: Mapping[str, Any]) -> dict[str, str]:
    """Settings as variables of another process, which takes them for its user's own.

    Raises:
        ConfigError: one of them names code that this process's user did not name.
    """
    for name, value in values.items():
        refuse_strangers_code(name, value, "what was read in a place")
    return {variable(name): as_text(value) for name, value in values.items()}


def refuse_strangers_code(name: str, value: Any, source: str) -> None:
    """See that a setting from a place selects nothing but what we ship. Raises ConfigError with what to type."""
    for text in names_code(name, value):
        raise ConfigError(
            f"{both_names(name)} = {quoted(text)} from {source} names code of somebody else. swarm never "
            f"imports what a shared folder names. If you know that code, type {to_type(name, value)}"
        )


def to_type(name: str, value: Any) -> str:
    """Returns what a user types for a setting to have a value: its flag, or its variable."""
    if name == TASK_TABLE:
        return f"the tasks in a settings file of your own (--config) or {variable(name)}"
    metadata = FIELDS[name].metadata
    if metadata["secret"]:
        return variable(name)
    text = shlex.quote(printable(as_text(value))[:LONGEST_TYPED])
    return f"{flag} {text}" if (flag := flag_of(name)) else f"{variable(name)}={text}"
