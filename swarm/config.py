"""Settings: command-line flag > environment variable > TOML file > default, in one frozen struct.

Settings are taken from the environment here alone. An unknown or malformed value is a ConfigError that names the
setting, where it came from, the value, and what is allowed. What is not built yet cannot be switched on.
"""

from __future__ import annotations

import difflib
import math
import re
import shlex
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from swarm.errors import ConfigError

ROLES = ("worker", "coordinator")
ADAPTIVE_RULES = ("reward-trend", "gradient", "multi-signal", "supply", "random", "constant")
"""Named here for the messages; swarm.algo.registry knows what they do. Others are named `package.module:function`."""
SAMPLERS = ("uniform", "informative", "balanced")
"""Named here for the messages; what they do is in swarm.algo.samplers. Others are named `package.module:function`."""
JUDGE = "judge"
"""The name under which a judge keeps its logs; it registers nowhere, and no node may have it."""
NODE_ID = re.compile(r"(?!.*\.sync-conflict-)[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
EXPERIMENT_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")


COMMAND_DEFAULT = "the command's default"


class _NotAllowedError(ValueError):
    """Carries the text of what is allowed."""


def _text(value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise _NotAllowedError("a non-empty text")
    return value.strip()


def _named(pattern: re.Pattern[str], what: str) -> Callable[[object], str]:
    def parse(value: object) -> str:
        text = _text(value)
        if not pattern.fullmatch(text) or text.endswith((".json", ".")):
            raise _NotAllowedError(f"{what}: letters, digits, '_', '-' and '.', starting with a letter or digit")
        return text

    return parse


def _whole(low: int, high: int = 2**31 - 1) -> Callable[[object], int]:
    allowed = f"a whole number from {low}" + ("" if high == 2**31 - 1 else f" to {high}")

    def parse(value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int | str):
            raise _NotAllowedError(allowed)
        try:
            number = int(value)
        except ValueError:
            raise _NotAllowedError(allowed) from None
        if not low <= number <= high:
            raise _NotAllowedError(allowed)
        return number

    return parse


def _real(low: float, high: float = math.inf, *, above: bool = False) -> Callable[[object], float]:
    allowed = f"a number {'above' if above else 'from'} {low:g}" + ("" if high == math.inf else f" to {high:g}")

    def parse(value: object) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float | str):
            raise _NotAllowedError(allowed)
        try:
            number = float(value)
        except ValueError:
            raise _NotAllowedError(allowed) from None
        if not math.isfinite(number) or not low <= number <= high or (above and number == low):
            raise _NotAllowedError(allowed)
        return number

    return parse


def _flag(value: object) -> bool:
    if isinstance(value, bool):
        return value
    words = {"true": True, "1": True, "yes": True, "on": True, "false": False, "0": False, "no": False, "off": False}
    if not isinstance(value, str) or value.strip().lower() not in words:
        raise _NotAllowedError("True or False")
    return words[value.strip().lower()]


def _one_of(*allowed: str) -> Callable[[object], str]:
    def parse(value: object) -> str:
        if value not in allowed:
            raise _NotAllowedError("one of " + ", ".join(allowed))
        return str(value)

    return parse


def _named_or_own(*known: str) -> Callable[[object], str]:
    def parse(value: object) -> str:
        if value in known or (isinstance(value, str) and _FUNCTION.fullmatch(value)):
            return str(value)
        raise _NotAllowedError("one of " + ", ".join(known) + ", or `package.module:function`")

    return parse


_FUNCTION = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*")


def _names(value: object) -> tuple[str, ...]:
    parts = value.split(",") if isinstance(value, str) else value
    if not isinstance(parts, list | tuple) or not parts or not all(map(_is_name, parts)):
        raise _NotAllowedError("one or more names, separated by commas")
    return tuple(p.strip() for p in parts)


def _is_name(part: object) -> bool:
    return isinstance(part, str) and bool(part.strip()) and "," not in part


def _setting(default: Any, parse: Callable[[object], Any], *env: str, not_yet: str = "") -> Any:
    """A field with its parser and the environment variables that set it, the first one being its name in messages.

    `not_yet` names what a value other than the default would need; such values are refused.
    """
    return field(default=default, metadata={"parse": parse, "env": env, "not_yet": not_yet})


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Everything a node needs to know before it starts. Times are seconds, sizes bytes."""

    path: str = _setting("./runs", _text, "GDRIVE_PATH", "SWARM_PATH")
    """The shared folder."""
    experiment: str = _setting("default_experiment", _named(EXPERIMENT_NAME, "a folder name"), "EXPERIMENT_NAME")
    """Name of the experiment, a folder under {path}/experiments."""
    role: str = _setting("worker", _one_of(*ROLES), "NODE_ROLE")
    """`worker` trains, `coordinator` owns the round clock."""
    node_id: str | None = _setting(None, _named(NODE_ID, "a node id"), "NODE_ID")
    """Unique per node; None: a readable one is generated."""
    model: tuple[str, ...] = _setting(("tiny-qwen2",), _names, "MODEL_NAME")
    """Embedded name, local path or Hugging Face id. `swarm up` deals a list out over its workers; a node takes one."""
    seed: int = _setting(42, _whole(0), "SEED")
    """Of every draw of the run: questions, sampling, external groups."""
    max_rounds: int = _setting(2000, _whole(1), "MAX_ROUNDS")
    """Rounds of the experiment; an experiment that is finished goes on if asked for more."""
    max_stages: int = _setting(1, _whole(1), "MAX_STAGES", not_yet="multi-stage rounds")
    """Stages per round."""
    local_groups: int = _setting(8, _whole(1), "NUM_TRAIN_SAMPLES")
    """I: own rollout groups per round."""
    external_groups: int = _setting(0, _whole(0), "NUM_TRANSPLANT_TREES")
    """J: peers' rollout groups per round."""
    generations: int = _setting(8, _whole(2, 1024), "NUM_GENERATIONS")
    """G: completions per group."""
    round_interval: float = _setting(60.0, _real(0, above=True), "COORDINATOR_ROUND_INTERVAL")
    """The longest a round stays open."""
    publish_frequency: str = _setting(
        "stage",
        _one_of("generation", "stage", "round"),
        "ROLLOUT_PUBLISH_FREQUENCY",
        not_yet="other publish frequencies",
    )
    """When groups are published: with every stage."""
    cleanup: bool = _setting(False, _flag, "ROLLOUT_CLEANUP_ENABLED", not_yet="retention")
    """Delete old rollouts."""
    keep_last_rounds: int = _setting(10, _whole(1), "ROLLOUT_KEEP_LAST_N_ROUNDS")
    """Rounds of rollouts that a cleanup leaves; of no effect while there is none."""
    archive_old: bool = _setting(False, _flag, "ROLLOUT_ARCHIVE_OLD", not_yet="retention")
    """Move old rollouts to the archive instead."""
    adaptive: bool = _setting(False, _flag, "ADAPTIVE_IJ_ENABLED")
    """Let I and J follow what the rounds tell, I + J constant."""
    adaptive_rule: str = _setting("gradient", _named_or_own(*ADAPTIVE_RULES), "SWARM_ADAPTIVE_RULE")
    """How they follow it."""
    adaptive_alpha: float = _setting(0.1, _real(0, 1, above=True), "ADAPTIVE_IJ_ALPHA")
    """Step size of the adaptive rule."""
    adaptive_baseline_alpha: float = _setting(0.95, _real(0, 1), "ADAPTIVE_IJ_BASELINE_ALPHA")
    """Memory of the adaptive rule's reward baseline; 1: all rounds count alike."""
    adaptive_initial_j: float | None = _setting(None, _real(0), "ADAPTIVE_IJ_INITIAL_J")
    """J to begin with; None: (I + J) / 2."""
    sampler: str = _setting("uniform", _named_or_own(*SAMPLERS), "SWARM_SAMPLER")
    """How the J external groups are drawn from the informative ones of the pool."""
    checkpoint_interval: int = _setting(100, _whole(0), "CHECKPOINT_INTERVAL")
    """Rounds between checkpoints; 0: only at the stop."""
    checkpoint_keep: int = _setting(2, _whole(1), "CHECKPOINT_KEEP")
    """How many of a node's own checkpoints stay on disk."""
    test_mode: bool = _setting(False, _flag, "TEST_MODE")
    """Quick validation: 3 rounds, I = 4, G = 4."""
    hub_token: str | None = _setting(None, _text, "HUGGINGFACE_ACCESS_TOKEN")
    """Access to gated models of the Hugging Face Hub."""
    tasks: tuple[str, ...] | None = _setting(None, _names, "SWARM_TASKS")
    """reasoning-gym tasks to draw from; None: the nine of the paper."""
    profile: str = _setting("tiny", _one_of("tiny", "paper"), "SWARM_PROFILE")
    """Difficulty: `tiny` for the embedded models, `paper` for real ones."""
    clock: str = _setting("coordinator", _one_of("coordinator", "own"), "SWARM_CLOCK")
    """Who says which round comes next: a coordinator, or every node for itself."""
    staleness_window: int = _setting(2, _whole(0, 1000), "SWARM_STALENESS_WINDOW")
    """Without a coordinator: rounds by which a peer's groups may be older or newer than the node's own round."""
    coordinator_patience: float | None = _setting(None, _real(0, above=True), "SWARM_COORDINATOR_PATIENCE")
    """After so long without a live coordinator workers go on by themselves; None: twice the round interval."""
    standby: bool = _setting(False, _flag, "SWARM_STANDBY")
    """A coordinator that waits until no other is alive, and takes the clock over then."""
    expected_workers: int = _setting(1, _whole(1), "SWARM_EXPECTED_WORKERS")
    """Round 0 opens when so many workers are there, or after one round interval with at least one."""
    heartbeat_interval: float = _setting(1.0, _real(0, above=True), "SWARM_HEARTBEAT_INTERVAL")
    """Seconds between a node's signs of life."""
    liveness_timeout: float = _setting(15.0, _real(0, above=True), "SWARM_LIVENESS_TIMEOUT")
    """A node whose heartbeat has not moved for so long is taken for dead."""
    reconcile_interval: float = _setting(2.0, _real(0, above=True), "SWARM_RECONCILE_INTERVAL")
    """The folder is listed at least so often, whatever the watcher says."""
    watch: str = _setting("auto", _one_of("auto", "off"), "SWARM_WATCH")
    """`off` finds everything by listing alone."""
    max_file_bytes: int = _setting(8 * 2**20, _whole(1024), "SWARM_MAX_FILE_BYTES")
    """A peer's file above this is refused unread."""
    admit: str = _setting("drawn", _one_of("drawn", "regenerable", "unverified"), "SWARM_ADMIT")
    """Peers' groups to learn from: `drawn`: those to the very questions that follow from the run's seed, the peer, the
    round and the slot; `regenerable`: to any question that can be regenerated; `unverified`: also those that do not say
    where their question comes from, held against the publisher's own answer by equality of text alone."""
    peer_groups: int = _setting(64, _whole(1, 1024), "SWARM_PEER_GROUPS")
    """Groups of one peer and round that are scored; a file with more is refused."""
    peer_completions: int = _setting(1024, _whole(2, 2**20), "SWARM_PEER_COMPLETIONS")
    """Completions of one peer and round that are scored; a file with more is refused."""
    max_peers: int = _setting(256, _whole(1, 65536), "SWARM_MAX_PEERS")
    """Peers whose files are read in one round, live ones first; the names beyond are counted."""
    quarantine_rounds: int = _setting(20, _whole(0), "SWARM_QUARANTINE_ROUNDS")
    """Rounds for which nothing is read of a peer most of whose groups were refused; 0: never."""
    redo_rounds: int = _setting(100, _whole(0), "SWARM_REDO_ROUNDS")
    """Rounds since the last checkpoint that a node redoes after it was killed, so that it goes on with the weights that
    it had; of more, or 0, it goes on with those of the checkpoint."""
    signing: str = _setting("off", _one_of("off", "on", "require"), "SWARM_SIGNING")
    """`on`: sign what is published, and hold peers to the key they were first seen with; `require`: refuse what is not
    signed as well. Needs the extra `signing`, and a key (`swarm keys new`)."""
    key_folder: str = _setting("~/.swarm", _text, "SWARM_KEY_FOLDER")
    """Where this user's key and the keys that peers were first seen with are kept; never in the shared folder."""
    scorer_processes: int = _setting(1, _whole(1, 64), "SWARM_SCORER_PROCESSES")
    """Children that score answers, per worker process."""
    threads: int | None = _setting(None, _whole(1, 1024), "SWARM_THREADS")
    """CPU threads of the compute step; None: one for an embedded model, else all cores (`swarm up`: a share for each
    process)."""
    device: str | None = _setting(None, _text, "SWARM_DEVICE")
    """Torch device such as `cpu` or `cuda:0`; None: the best there is."""
    learning_rate: float | None = _setting(None, _real(0, above=True), "SWARM_LEARNING_RATE")
    """Adam's step size; None: what suits the model (`tiny-qwen2` 3e-4, the other embedded ones 2e-4, others 1e-6)."""
    temperature: float = _setting(1.0, _real(0, above=True), "SWARM_TEMPERATURE")
    """Divides the logits, in sampling and in training alike."""
    top_p: float = _setting(1.0, _real(0, 1, above=True), "SWARM_TOP_P")
    """Nucleus sampling: the likeliest tokens that together reach this probability; 1 keeps all."""
    top_k: int = _setting(0, _whole(0), "SWARM_TOP_K")
    """Sample from the k likeliest tokens; 0: all, 1: always the likeliest."""
    min_p: float = _setting(0.0, _real(0, 1), "SWARM_MIN_P")
    """Sample from tokens at least so likely as this share of the likeliest one's probability; 0: all."""
    max_new_tokens: int | None = _setting(None, _whole(1), "SWARM_MAX_NEW_TOKENS")
    """Length limit of a completion; None: what the model's generation config says, else 256."""
    kl_weight: float = _setting(0.0, _real(0), "SWARM_KL_WEIGHT")
    """Weight of the KL penalty towards the initial weights; above 0 a second copy of the model is held."""
    max_grad_norm: float = _setting(1.0, _real(0, above=True), "SWARM_MAX_GRAD_NORM")
    """Gradients with a larger norm are scaled down to it."""
    grpo_iterations: int = _setting(1, _whole(1, 64), "SWARM_GRPO_ITERATIONS")
    """Optimizer steps per round on the same groups."""
    clip_low: float = _setting(0.2, _real(0, 0.99, above=True), "SWARM_CLIP_LOW")
    """The probability ratio gains nothing below 1 - clip_low."""
    clip_high: float = _setting(0.28, _real(0, above=True), "SWARM_CLIP_HIGH")
    """The probability ratio gains nothing above 1 + clip_high."""
    warmup_steps: int = _setting(0, _whole(0), "SWARM_WARMUP_STEPS")
    """Updates over which the learning rate rises to its full value."""
    weight_decay: float = _setting(0.0, _real(0), "SWARM_WEIGHT_DECAY")
    """Decoupled weight decay of AdamW."""
    publish_logprobs: bool = _setting(False, _flag, "SWARM_PUBLISH_LOGPROBS")
    """Publish token ids and log-probs beside the text, for peers of the same tokenizer that weigh them (below)."""
    importance_cap: float = _setting(0.0, _real(0), "SWARM_IMPORTANCE_CAP")
    """Weigh tokens whose publisher's log-probs are usable by min(this, policy / publisher); 0: weigh none."""
    staleness: int = _setting(0, _whole(0, 1), "SWARM_STALENESS")
    """1: generate the next round's groups while this round's are gathered and trained on, one update behind."""
    micro_batch_tokens: int = _setting(16384, _whole(64), "SWARM_MICRO_BATCH_TOKENS")
    """Padded tokens per forward and backward pass: less memory, same gradient."""
    gradient_checkpointing: bool | None = _setting(None, _flag, "SWARM_GRADIENT_CHECKPOINTING")
    """Recompute activations in the backward pass: less memory, more time. None: if `swarm up` plans so."""
    precision: str = _setting("auto", _one_of("auto", "fp32", "bf16"), "SWARM_PRECISION")
    """What the model computes in; the weights that are trained stay fp32. `auto`: bf16 on GPUs that have it."""
    attention: str = _setting("auto", _one_of("auto", "eager", "sdpa", "flash_attention_2"), "SWARM_ATTENTION")
    """Attention back-end of transformers; `auto`: the fastest that the device and the model have."""
    decoding: str = _setting("auto", _one_of("auto", "dynamic", "static"), "SWARM_DECODING")
    """KV cache while generating: `dynamic` grows, `static` is fixed and replayed as CUDA graphs on a GPU."""
    device_lease: str = _setting("auto", _one_of("auto", "on", "off"), "SWARM_DEVICE_LEASE")
    """Processes on one device take turns in their updates; `auto`: on GPUs, but not in one process."""
    log_level: str = _setting("info", _one_of("debug", "info", "warning", "error"), "SWARM_LOG_LEVEL")
    """What the terminal shows; the folder gets info and above always."""

    @property
    def shared_folder(self) -> Path:
        """The shared folder as an absolute path."""
        return Path(self.path).expanduser().absolute()

    @property
    def private_folder(self) -> Path:
        """The key folder as an absolute path."""
        return Path(self.key_folder).expanduser().absolute()

    @property
    def total_groups(self) -> int:
        """N = I + J, the same whether they are adaptive or not."""
        return self.local_groups + self.external_groups

    @property
    def most_local_groups(self) -> int:
        """The most own groups that a round may have."""
        return self.total_groups if self.adaptive else self.local_groups

    @property
    def most_external_groups(self) -> int:
        """The most external groups that a round may ask for."""
        return self.total_groups - 1 if self.adaptive else self.external_groups

    @property
    def shares(self) -> bool:
        """Whether peers' groups are gathered: with adaptive I/J in every round, those with J = 0 included, so that no
        round differs from another, or from one of a fixed split, by whom it waited for."""
        return self.most_external_groups > 0

    @property
    def patience_with_coordinator(self) -> float:
        """Seconds without a live coordinator after which a worker goes on by itself."""
        return 2 * self.round_interval if self.coordinator_patience is None else self.coordinator_patience

    @property
    def initial_j(self) -> float:
        """J that the adaptive rule begins with."""
        return self.total_groups / 2 if self.adaptive_initial_j is None else self.adaptive_initial_j

    def experiment_identity(self) -> dict[str, Any]:
        """The settings that make two runs the same experiment; a running one refuses to go on with others.

        What IDENTITY_DEFAULTS names is left out where it is at its default.
        """
        identity = self._identity_of_all()
        if self.adaptive:
            identity |= {name: getattr(self, name) for name in _ADAPTIVE} | {"adaptive_initial_j": self.initial_j}
        chosen = {name: getattr(self, name) for name in ("sampler", "clock")}
        return identity | {name: value for name, value in chosen.items() if value != IDENTITY_DEFAULTS[name]}

    def _identity_of_all(self) -> dict[str, Any]:
        return {
            "seed": self.seed,
            "local_groups": self.local_groups,
            "external_groups": self.external_groups,
            "generations": self.generations,
            "profile": self.profile,
            "tasks": list(self.tasks) if self.tasks else None,
        }

    def as_environment(self) -> dict[str, str]:
        """The variables that give another process these settings, if it has no others (see `without_settings`).

        Those at their defaults are left out, but for the ones that test mode would set otherwise.
        """
        stated = set(_QUICK if self.test_mode else ())
        if any(getattr(self, name) != _FIELDS[name].default for name in _ADAPTIVE):
            stated.add("adaptive")  # off on purpose, or on: see _check_adaptive
        changed = {
            f.name: getattr(self, f.name)
            for f in fields(self)
            if f.name in stated or getattr(self, f.name) != f.default
        }
        return {
            variable(name): ",".join(value) if isinstance(value, tuple) else str(value)
            for name, value in changed.items()
        }


_QUICK: dict[str, Any] = {"max_rounds": 3, "local_groups": 4, "generations": 4}
"""What test mode sets where nobody says otherwise."""
_FIELDS = {f.name: f for f in fields(Settings)}
_ADAPTIVE = tuple(name for name in _FIELDS if name.startswith("adaptive"))
IDENTITY_DEFAULTS: dict[str, Any] = {"adaptive": False, "sampler": "uniform", "clock": "coordinator"}
"""What an experiment has whose identity does not say it, such as one of a version that knew nothing else."""


def variable(name: str) -> str:
    """The environment variable of a setting, as users know it."""
    env: tuple[str, ...] = _FIELDS[name].metadata["env"]
    return env[0]


def given_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """The settings in an environment, secrets left out."""
    ours = {name for f in _FIELDS.values() for name in f.metadata["env"]} - set(SECRETS)
    return {name: value for name, value in environ.items() if name in ours and value.strip()}


def without_settings(environ: Mapping[str, str]) -> dict[str, str]:
    """An environment without any setting in it: what another process gets below its own ones."""
    ours = {name for f in _FIELDS.values() for name in f.metadata["env"]}
    return {name: value for name, value in environ.items() if name not in ours}


SECRETS = ("HUGGINGFACE_ACCESS_TOKEN",)
"""Variables that are never shown."""


DAEMONS = {
    "coordinator": ("node", "--role", "coordinator"),
    "worker": ("node", "--role", "worker"),
    "workers": ("workers",),
}
"""The `swarm` command of each kind of daemon."""


def command_line(environment: Mapping[str, str], role: str = "worker") -> str:
    """What a person would type to start a daemon with these variables; secrets are left for them to add."""
    shown = [f"{name}={shlex.quote(value)}" for name, value in environment.items() if name not in SECRETS]
    return " ".join([*shown, "swarm", *DAEMONS[role]])


def load_settings(
    flags: Mapping[str, Any], environ: Mapping[str, str], toml_file: str | None = None, **defaults: Any
) -> Settings:
    """Merge flags (None: not given), the environment, a TOML file and defaults into checked settings.

    Args:
        flags: setting name -> value from the command line.
        environ: the process environment; an empty variable counts as not set.
        toml_file: a file of `setting = value` lines, named as the fields of Settings or as their variables.
        defaults: what this command uses where nobody says otherwise, instead of the field's default.

    Raises:
        ConfigError: unknown setting, malformed value, or a combination that cannot work.
    """
    known = {variable: name for name, f in _FIELDS.items() for variable in f.metadata["env"]}
    _refuse_unknown_variables(environ, known)
    raw: dict[str, tuple[object, str]] = {name: (value, COMMAND_DEFAULT) for name, value in defaults.items()}
    raw |= _from_toml(toml_file, known) if toml_file else {}
    raw |= _from_environment(environ)
    raw |= {name: (value, "the command line") for name, value in flags.items() if value is not None}
    values = {name: _parse(name, value, source) for name, (value, source) in raw.items()}
    given = {name for name, (_, source) in raw.items() if source != COMMAND_DEFAULT}
    return _check(Settings(**values), given)


def _from_environment(environ: Mapping[str, str]) -> dict[str, tuple[object, str]]:
    found: dict[str, tuple[object, str]] = {}
    for name, f in _FIELDS.items():
        given = [(v, environ[v]) for v in f.metadata["env"] if environ.get(v, "").strip()]
        if len({value for _, value in given}) > 1:
            raise ConfigError(
                " and ".join(f"{v}={value!r}" for v, value in given) + " mean the same setting but differ: keep one"
            )
        if given:
            found[name] = (given[0][1], f"the environment variable {given[0][0]}")
    return found


def _refuse_unknown_variables(environ: Mapping[str, str], known: Mapping[str, str]) -> None:
    for variable in environ:
        if variable.startswith("SWARM_") and variable not in known:
            raise ConfigError(f"unknown setting {variable} in the environment{_suggest(variable, known)}")


def _from_toml(file: str, known: Mapping[str, str]) -> dict[str, tuple[object, str]]:
    try:
        table = tomllib.loads(Path(file).read_text("utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"cannot read the settings file {file}: {error}") from None
    found: dict[str, tuple[object, str]] = {}
    for key, value in table.items():
        name = known.get(key, key)
        if name not in _FIELDS:
            raise ConfigError(f"unknown setting {key!r} in {file}{_suggest(key, [*_FIELDS, *known])}")
        if name in found:
            raise ConfigError(f"{key!r} sets {name} a second time in {file}: keep one")
        found[name] = (value, file)
    return found


def _suggest(word: str, known: Any) -> str:
    close = difflib.get_close_matches(word, list(known), n=1, cutoff=0.75)
    return f"; did you mean {close[0]}?" if close else "; `swarm settings` lists all"


def _parse(name: str, value: object, source: str) -> Any:
    f = _FIELDS[name]
    if value is None and f.default is None:
        return None
    try:
        parsed = f.metadata["parse"](value)
    except _NotAllowedError as allowed:
        raise ConfigError(
            f"{variable(name)} ({name}) must be {allowed}, got {value!r} from {source}; correct it or leave it out"
        ) from None
    if f.metadata["not_yet"] and f.default is not MISSING and parsed != f.default:
        raise ConfigError(
            f"{variable(name)} ({name}) = {value!r} from {source} needs {f.metadata['not_yet']}, "
            f"which this version does not have; only {f.default!r} works"
        )
    return parsed


def _check(settings: Settings, given: set[str]) -> Settings:
    if settings.node_id == JUDGE:
        raise ConfigError(
            f"{variable('node_id')} must not be {JUDGE!r}: logs/{JUDGE} belongs to the judge; choose another"
        )
    if settings.liveness_timeout < 3 * settings.heartbeat_interval:
        raise ConfigError(
            f"{variable('liveness_timeout')} must be at least three times {variable('heartbeat_interval')}, got "
            f"{settings.liveness_timeout:g} and {settings.heartbeat_interval:g}; else live nodes are taken for dead"
        )
    if settings.test_mode:
        settings = replace(settings, **{name: value for name, value in _QUICK.items() if name not in given})
    _check_adaptive(settings, given)
    return settings


def _check_adaptive(settings: Settings, given: set[str]) -> None:
    total, initial = settings.total_groups, settings.initial_j
    idle = sorted(given & set(_ADAPTIVE))
    if idle and "adaptive" not in given:
        raise ConfigError(
            f"{', '.join(map(variable, idle))} would have no effect, for {variable('adaptive')} is off: "
            f"switch it on, say {variable('adaptive')}=False, or leave {'it' if len(idle) == 1 else 'them'} out"
        )
    if not settings.adaptive:
        return
    names = f"{variable('local_groups')} + {variable('external_groups')}"
    if total < 2:
        raise ConfigError(f"{variable('adaptive')} divides {names}, which must be at least 2 for it, got {total}")
    if initial > total - 1:
        raise ConfigError(
            f"{variable('adaptive_initial_j')} must be at most {names} - 1 = {total - 1}, since a node always asks "
            f"itself something, got {initial:g}; lower it, or raise {variable('local_groups')}"
        )
