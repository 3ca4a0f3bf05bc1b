"""Settings: who decides, what is refused, and what another process gets."""

from __future__ import annotations

from pathlib import Path
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec import Meta

from swarm.config import Settings, load_settings, sources_of, variable, without_settings
from swarm.config import settings as settings_module
from swarm.config.constraints import Text, allowed, plain_type
from swarm.config.declared import declared, sections
from swarm.config.file_names import ENDS_LIKE_A_SLOT, why_reserved
from swarm.config.settings import FIELDS
from swarm.errors import ConfigError


def load(environ: dict[str, str] | None = None, /, **flags: Any) -> Settings:
    """Settings from these variables and flags alone."""
    return load_settings(flags, environ or {})


def refusal(environ: dict[str, str] | None = None, /, **flags: Any) -> str:
    """The message with which these variables and flags are refused."""
    with pytest.raises(ConfigError) as error:
        load(environ, **flags)
    return str(error.value)


def toml(tmp_path: Path, text: str) -> str:
    (tmp_path / "swarm.toml").write_text(text, "utf-8")
    return str(tmp_path / "swarm.toml")


# ── who decides ─────────────────────────────────────────────────────────────────────────────────────────────────────
def test_a_flag_beats_the_environment_beats_the_file_beats_the_preset_beats_the_command_beats_the_default(
    tmp_path: Path,
) -> None:
    def rate(flag: float | None = None, preset: str | None = None, **given: Any) -> float | None:
        return load_settings({"learning_rate": flag, "preset": preset}, environ, file or None, **given).learning_rate

    command, environ, file = {"learning_rate": 2e-4}, dict[str, str](), ""
    assert rate() is None
    assert rate(**command) == 2e-4
    assert rate(preset="paper", **command) == 1e-3
    file = toml(tmp_path, "learning_rate = 0.1")
    assert rate(preset="paper", **command) == 0.1
    environ = {"SWARM_LEARNING_RATE": "0.2"}
    assert rate(preset="paper", **command) == 0.2
    assert rate(0.3, preset="paper", **command) == 0.3


def test_an_empty_variable_counts_as_not_set() -> None:
    assert load({"SEED": "", "NODE_ID": " "}) == Settings()


def test_the_folder_has_two_names() -> None:
    assert load({"GDRIVE_PATH": "/a"}).path == load({"SWARM_PATH": "/a"}).path == "/a"
    assert load({"GDRIVE_PATH": "/a", "SWARM_PATH": "/a"}).path == "/a"
    assert "GDRIVE_PATH='/a' and SWARM_PATH='/b' mean the same setting but differ" in refusal(
        {"GDRIVE_PATH": "/a", "SWARM_PATH": "/b"}
    )


def test_a_file_names_settings_as_fields_or_as_variables(tmp_path: Path) -> None:
    file = toml(tmp_path, 'NUM_TRAIN_SAMPLES = 6\nexternal_groups = 2\nmodel = ["tiny-qwen2", "tiny-gpt2"]\n')
    settings = load_settings({}, {}, file)
    assert (settings.local_groups, settings.external_groups) == (6, 2)
    assert settings.model == ("tiny-qwen2", "tiny-gpt2")


SEED = r"SEED \(seed\) must be a whole number from 0, got .*swarm\.toml"
NAMES = "one or more names, separated by commas"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        *(
            (text, r"cannot read the settings file .*swarm\.toml: ")
            for text in ("seed = ", "seed = 1\nseed = 2", "\x00")
        ),
        *((f"seed = {value}", SEED) for value in ("true", "1.0", "[1]", "1979-05-27")),
        *((f"model = {value}", NAMES) for value in ("[]", "[1]", '["a,b"]', '[""]', "1")),
        ('path = "/a"\nGDRIVE_PATH = "/b"', "'GDRIVE_PATH' sets path a second time"),
        ("sed = 1", r"unknown setting 'sed' in .*; did you mean 'seed'\?"),
        ("[worker]\nseed = 1", "unknown setting 'worker'"),
    ],
)
def test_what_is_wrong_in_a_file_is_refused(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        load_settings({}, {}, toml(tmp_path, text))


# ── presets ─────────────────────────────────────────────────────────────────────────────────────────────────────────
def test_a_preset_is_named_by_a_flag_a_variable_or_a_file(tmp_path: Path) -> None:
    by_file = load_settings({}, {}, toml(tmp_path, 'preset = "paper"'))
    by_variable_in_file = load_settings({}, {}, toml(tmp_path, 'SWARM_PRESET = "paper"'))
    assert load({"SWARM_PRESET": "paper"}) == load(preset="paper") == by_file == by_variable_in_file != Settings()


def test_the_preset_of_the_paper_is_what_the_paper_says() -> None:
    settings = load(preset="paper")
    assert (settings.learning_rate, settings.kl_weight) == (0.001, 0)
    assert (settings.clip_low, settings.clip_high) == (0.2, 0.28)
    assert (settings.max_rounds, settings.generations, settings.total_groups) == (2000, 8, 8)
    assert (settings.optimizer.max_grad_norm, settings.optimizer.empty_update) == (0, "step")


def test_another_process_has_the_preset_and_what_was_said_beside_it_even_where_that_is_a_default() -> None:
    settings = load({"SWARM_PRESET": "paper", "SWARM_EMPTY_UPDATE": "skip", "SWARM_MAX_GRAD_NORM": "1"})
    assert (settings.optimizer.empty_update, settings.optimizer.max_grad_norm) == ("skip", 1)
    environment = without_settings({"SWARM_PRESET": "paper", "HOME": "/root"}) | settings.as_environment()
    assert load(environment) == settings


# ── the fork's variables that are no more ───────────────────────────────────────────────────────────────────────────
@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("ADAPTIVE_IJ", "say ADAPTIVE_IJ_ENABLED"),
        ("ADAPTIVE_RATE", "say ADAPTIVE_IJ_ALPHA"),
        ("SUBMIT_PERIOD_HOURS", "rewards are submitted with every round"),
        ("LOG_FLUSH_INTERVAL", "every line of a log is in the folder as soon as it is written"),
    ],
)
def test_a_variable_that_is_retired_is_refused_with_what_to_do(name: str, instead: str, tmp_path: Path) -> None:
    message = refusal({name: "0.5"})
    assert f"{name}='0.5' has no meaning here" in message
    assert instead in message
    assert load({name: ""}) == Settings()
    with pytest.raises(ConfigError, match=instead):
        load_settings({}, {}, toml(tmp_path, f"{name} = 0.5"))


# ── misspelled variables ────────────────────────────────────────────────────────────────────────────────────────────
@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("NUM_TRAIN_SAMPLE", "NUM_TRAIN_SAMPLES"),
        ("NUM_TRASNPLANT_TREES", "NUM_TRANSPLANT_TREES"),
        ("COORDINATR_ROUND_INTERVALL", "COORDINATOR_ROUND_INTERVAL"),
        ("COORDINATOR_INTERVAL", "COORDINATOR_ROUND_INTERVAL"),
        ("MODEL_NAMES", "MODEL_NAME"),
        ("SWARM_PROFIL", "SWARM_PROFILE"),
    ],
)
def test_a_misspelled_variable_is_refused_with_the_one_that_was_meant(name: str, known: str) -> None:
    assert f"did you mean {known!r}?" in refusal({name: "4"})


def test_an_unknown_variable_of_ours_that_is_like_none_is_refused_with_where_all_are_listed() -> None:
    assert refusal({"SWARM_XYZZY": "1"}).endswith("lists all, those of a plugin where it is installed")


SOMEBODY_ELSES = [
    *("NODE_VERSION", "NODE_ENV", "NODE_IP", "NODE_IDS", "NODE_HOME", "NODE_NAME", "NODE_PATH", "NODE_RANK"),
    *("SEEDS", "PYTHONHASHSEED", "TEST_MODEL", "TEST_NODE", "TESTMODE", "MODEL_PATH", "MODEL_TYPE", "MODE_NAME"),
    *("MODEL_CACHE", "MODEL_NAME_OR_PATH", "CHECKPOINT_DIR", "CHECKPOINT_STEP", "CHECKPOINT_PATH", "DRIVE_PATH"),
    *("MAX_STEPS", "MAX_RETRIES", "NUM_SAMPLES", "NUM_WORKERS", "NUM_EPOCHS", "NUM_TREES", "GENERATIONS", "RUN_NAME"),
    *("COORDINATOR_HOST", "COORDINATOR_PORT", "ROLLOUT_DIR", "EXPERIMENT_ID", "EXPERIMENT_DIR"),
    *("HUGGINGFACE_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HUGGING_FACE_ACCESS_TOKEN", "HUGGINGFACE_ACCESS_TOKENS"),
]


def test_the_variables_of_other_programs_are_none_of_ours() -> None:
    assert load(dict.fromkeys(SOMEBODY_ELSES, "18.2")) == Settings()


# ── the owner's variables ───────────────────────────────────────────────────────────────────────────────────────────
OWNERS = [
    ("GDRIVE_PATH", "path", "./runs", "/mnt", "/mnt"),
    ("SWARM_PATH", "path", "./runs", "/mnt", "/mnt"),
    ("EXPERIMENT_NAME", "experiment", "default_experiment", "demo", "demo"),
    ("NODE_ROLE", "role", "worker", "coordinator", "coordinator"),
    ("NODE_ID", "node_id", None, "anna", "anna"),
    ("MODEL_NAME", "model", ("tiny-2-qwen2",), "Qwen/Qwen2.5-0.5B", ("Qwen/Qwen2.5-0.5B",)),
    ("SEED", "seed", 42, "7", 7),
    ("MAX_ROUNDS", "max_rounds", 2000, "100", 100),
    ("MAX_STAGES", "max_stages", 1, "1", 1),
    ("NUM_TRAIN_SAMPLES", "local_groups", 8, "4", 4),
    ("NUM_TRANSPLANT_TREES", "external_groups", 0, "4", 4),
    ("NUM_GENERATIONS", "generations", 8, "4", 4),
    ("COORDINATOR_ROUND_INTERVAL", "round_interval", 60.0, "2.5", 2.5),
    ("ROLLOUT_PUBLISH_FREQUENCY", "publish_frequency", "stage", "stage", "stage"),
    ("ROLLOUT_CLEANUP_ENABLED", "cleanup", False, "False", False),
    ("ROLLOUT_KEEP_LAST_N_ROUNDS", "keep_last_rounds", 10, "5", 5),
    ("ROLLOUT_ARCHIVE_OLD", "archive_old", False, "no", False),
    ("ADAPTIVE_IJ_ENABLED", "adaptive", False, "0", False),
    ("ADAPTIVE_IJ_ALPHA", "adaptive_alpha", 0.1, "0.5", 0.5),
    ("ADAPTIVE_IJ_BASELINE_ALPHA", "adaptive_baseline_alpha", 0.95, "0.9", 0.9),
    ("ADAPTIVE_IJ_INITIAL_J", "adaptive_initial_j", None, "3", 3.0),
    ("ADAPTIVE_IJ_MIN_J", "adaptive_min_j", 0, "2", 2),
    ("ADAPTIVE_IJ_MAX_J", "adaptive_max_j", None, "6", 6),
    ("CHECKPOINT_INTERVAL", "checkpoint_interval", 100, "0", 0),
    ("TEST_MODE", "test_mode", False, "True", True),
    ("HUGGINGFACE_ACCESS_TOKEN", "hub_token", None, "hf_x", "hf_x"),
]
"""Variable, setting, default, a text, and what it means."""


@pytest.mark.parametrize(("name", "setting", "default", "text", "value"), OWNERS, ids=[row[0] for row in OWNERS])
def test_the_owners_variables_keep_name_default_and_meaning(
    name: str, setting: str, default: object, text: str, value: object
) -> None:
    assert getattr(load(), setting) == default
    assert getattr(load({"ADAPTIVE_IJ_ENABLED": "False", name: text}), setting) == value


# ── what is refused ─────────────────────────────────────────────────────────────────────────────────────────────────
MALFORMED = [
    *(("SEED", text, "a whole number from 0") for text in ("x", "-1", "1.5", str(2**31), "9" * 5000)),
    ("NUM_TRAIN_SAMPLES", "0", "a whole number from 1"),
    ("NUM_GENERATIONS", "1", "a whole number from 2 to 1024"),
    *(("COORDINATOR_ROUND_INTERVAL", text, "a number above 0") for text in ("0", "nan", "inf", "a minute")),
    ("ADAPTIVE_IJ_ALPHA", "1.1", "a number above 0 to 1"),
    ("NODE_ROLE", "Coordinator", "one of worker, generator, evaluator, coordinator, person"),
    *(("NODE_ID", text, "a node id: letters") for text in ("../anna", "anna.json", "anna.", "anna.sync-conflict-1")),
    ("NODE_ID", "a" * 65, "a node id: letters"),
    *(("EXPERIMENT_NAME", text, "a folder name: letters") for text in ("a/b", "..")),
    ("ROLLOUT_PUBLISH_FREQUENCY", "hourly", "one of generation, stage, round"),
    ("ROLLOUT_CLEANUP_ENABLED", "maybe", "True or False"),
    ("MODEL_NAME", "tiny-qwen2,,tiny-gpt2", "one or more names, separated by commas"),
    ("SWARM_PROFILE", "hard", "one of tiny-3, tiny-2, tiny, paper-2, paper, rl-swarm"),
    ("SWARM_MAX_GRAD_NORM", "-1", "a number from 0"),
]


@pytest.mark.parametrize(("name", "text", "allowed"), MALFORMED)
def test_a_malformed_value_is_refused_with_its_source_and_what_is_allowed(name: str, text: str, allowed: str) -> None:
    message = refusal({name: text})
    assert message.startswith(f"{name} (")
    assert f"must be {allowed}" in message
    assert f"got {text!r}"[:100] in message
    assert f" from the environment variable {name}; " in message
    assert len(message) < 1000


@pytest.mark.parametrize(
    ("text", "count", "names"),
    [
        ("3", 3, []),
        ("anna,ben", 2, ["anna", "ben"]),
        ("anna", 1, ["anna"]),
        (f"anna, {'A' * 43}=", 2, ["anna", f"{'A' * 43}="]),
    ],
)
def test_workers_are_expected_by_number_or_by_name_or_key(text: str, count: int, names: list[str]) -> None:
    settings = load({"SWARM_EXPECTED_WORKERS": text, "SWARM_SIGNING": "on"})
    assert (settings.expected_count, settings.expected_names) == (count, frozenset(names))
    assert load(settings.as_environment()) == settings


def test_a_worker_that_is_expected_by_its_key_has_to_sign() -> None:
    key = "A" * 43 + "="
    said = refusal({"SWARM_EXPECTED_WORKERS": f"anna,{key}"})
    assert f"names the public key {key}" in said
    assert "set SWARM_SIGNING to on or require" in said


@pytest.mark.parametrize("text", ["0", "-1", "../anna", "anna,", "1.5.json"])
def test_workers_are_expected_by_nothing_else(text: str) -> None:
    assert "a whole number from 1, or node ids or public keys" in refusal({"SWARM_EXPECTED_WORKERS": text})


@pytest.mark.parametrize(
    ("others", "says"),
    [
        ({"SWARM_STALENESS": "1"}, "SWARM_STALENESS = 1 exclude each other"),
        ({"ROLLOUT_PUBLISH_FREQUENCY": "round"}, "choose stage or generation"),
        ({"SWARM_REVISE": '{"answers": 0}'}, "at `$.answers`"),
        ({"SWARM_REVISE": '{"colour": 1}'}, "colour"),
        ({"SWARM_REVISE": '{"templates": ["{question}"]}'}, "has {answers} 0 times, expected once"),
    ],
)
def test_what_cannot_work_with_several_stages_is_refused(others: dict[str, str], says: str) -> None:
    assert says in refusal({"MAX_STAGES": "2", **others})


def test_no_node_is_called_as_the_judge_or_so_that_its_file_has_the_name_of_anothers_group() -> None:
    assert "belongs to the judge" in refusal({"NODE_ID": "judge"})
    assert "NODE_ID=qwen2-5" in refusal({"NODE_ID": "qwen2.5"})
    assert load({"NODE_ID": "qwen2.5b"}).node_id == "qwen2.5b"


def test_a_liveness_timeout_below_three_heartbeats_is_refused() -> None:
    message = refusal({"SWARM_HEARTBEAT_INTERVAL": "2", "SWARM_LIVENESS_TIMEOUT": "5.9"})
    assert message.startswith("SWARM_LIVENESS_TIMEOUT must be at least 3 times SWARM_HEARTBEAT_INTERVAL")
    assert load({"SWARM_HEARTBEAT_INTERVAL": "2", "SWARM_LIVENESS_TIMEOUT": "6"}).cadence.liveness_timeout == 6


# ── adaptive I/J, samplers ──────────────────────────────────────────────────────────────────────────────────────────
@pytest.mark.parametrize("name", ["ADAPTIVE_IJ_ALPHA", "ADAPTIVE_IJ_BASELINE_ALPHA", "ADAPTIVE_IJ_INITIAL_J"])
def test_what_would_have_no_effect_while_adaptive_is_off_is_refused_unless_that_is_said(name: str) -> None:
    message = refusal({name: "0.5"})
    assert message.startswith(f"{name} would have no effect")
    assert "say ADAPTIVE_IJ_ENABLED=False" in message
    assert not load({name: "0.5", "ADAPTIVE_IJ_ENABLED": "False"}).adaptive
    assert load({name: "0.5", "ADAPTIVE_IJ_ENABLED": "True"}).adaptive


def test_j_begins_in_the_middle_or_at_the_end_of_the_allowed_range_that_is_nearest_to_it() -> None:
    assert load(adaptive=True, local_groups=6, external_groups=2).initial_j == 4
    assert load(adaptive=True, local_groups=1, external_groups=1).initial_j == 1
    assert [load(adaptive=True, adaptive_initial_j=j).initial_j for j in (0, 7)] == [0, 7]
    assert load(adaptive=True, adaptive_min_j=5).initial_j == 5
    assert load(adaptive=True, adaptive_max_j=2).initial_j == 2
    assert load(adaptive=True, adaptive_min_j=2, adaptive_max_j=6).initial_j == 4


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"adaptive_max_j": 8}, "ADAPTIVE_IJ_MAX_J must be at most NUM_TRAIN_SAMPLES + NUM_TRANSPLANT_TREES - 1 = 7"),
        ({"adaptive_min_j": 8}, "ADAPTIVE_IJ_MIN_J must be at most"),
        ({"adaptive_min_j": 5, "adaptive_max_j": 3}, "must hold, got 5, 3 and 3"),
        ({"adaptive_min_j": 2, "adaptive_initial_j": 1}, "must hold, got 2, 1 and 7"),
        ({"adaptive_max_j": 4, "adaptive_initial_j": 4.5}, "must hold, got 0, 4.5 and 4"),
        ({"adaptive_initial_j": 7.5}, "must be at most NUM_TRAIN_SAMPLES + NUM_TRANSPLANT_TREES - 1 = 7"),
        ({"local_groups": 1}, "must be at least 2 for it, got 1"),
    ],
)
def test_a_range_of_j_that_cannot_be_or_leaves_nothing_to_divide_is_refused(given: dict[str, float], said: str) -> None:
    assert said in refusal(adaptive=True, **given)


def test_with_adaptive_every_round_shares_and_may_have_all_groups_its_own() -> None:
    settings = load(adaptive=True, local_groups=8, external_groups=0)
    assert (settings.total_groups, settings.most_local_groups, settings.most_external_groups) == (8, 8, 7)
    assert settings.shares
    fixed = load(local_groups=6, external_groups=2)
    assert (fixed.total_groups, fixed.most_local_groups, fixed.most_external_groups) == (8, 6, 2)
    assert fixed.shares
    assert not load(local_groups=8, external_groups=0).shares


@pytest.mark.parametrize("name", ["SWARM_SAMPLER", "SWARM_ADAPTIVE_RULE"])
@pytest.mark.parametrize("text", ["best", "mine:", ":draw", "mine:draw()", "a-b:draw", "mine:a.b"])
def test_a_rule_or_sampler_is_one_of_ours_or_a_function_of_a_module(name: str, text: str) -> None:
    assert "or `package.module:function`, got" in refusal({"ADAPTIVE_IJ_ENABLED": "True", name: text})


def test_only_what_is_not_the_default_is_added_to_the_identity() -> None:
    assert not {"adaptive", "sampler", "loss", "advantage_scaling"} & set(load().experiment_identity())
    identity = load(adaptive=True, adaptive_rule="supply", sampler="balanced").experiment_identity()
    assert (identity["adaptive_rule"], identity["adaptive_initial_j"], identity["sampler"]) == ("supply", 4, "balanced")
    assert all(variable(name) for name in identity)


def test_test_mode_beats_the_defaults_of_a_command_and_leaves_what_was_asked_for() -> None:
    assert load_settings({"test_mode": True}, {}, max_rounds=40).max_rounds == 3
    settings = load({"TEST_MODE": "1", "NUM_GENERATIONS": "8"}, max_rounds=5)
    assert (settings.max_rounds, settings.local_groups, settings.generations) == (5, 4, 8)


# ── another process ─────────────────────────────────────────────────────────────────────────────────────────────────
WORDS = st.text("abcXYZ019-_/", min_size=1, max_size=12)


def values_of(kind: Any) -> st.SearchStrategy[Any]:
    """What a setting of this annotated type may be."""
    base, meta = plain_type(kind), next((m for m in getattr(kind, "__metadata__", ()) if isinstance(m, Meta)), None)
    if get_origin(kind) in (Union, UnionType):
        return values_of(get_args(kind)[0])
    if get_origin(kind) is Literal:
        return st.sampled_from(get_args(kind))
    if base is int:
        return st.integers(meta.ge, min(meta.le, meta.ge + 5000))
    if base is float:
        low = meta.gt if meta.ge is None else meta.ge
        high = meta.lt if meta.le is None else meta.le
        return st.floats(max(low, -1e6), min(high, 1e6), exclude_min=meta.ge is None, exclude_max=meta.le is None)
    if base is tuple:
        return st.lists(WORDS, min_size=1, max_size=3).map(tuple)
    if base is bool or kind == Text:
        return st.booleans() if base is bool else WORDS
    return st.from_regex(meta.pattern, fullmatch=True, alphabet=st.characters(codec="ascii"))


VALUES = {name: values_of(f.type) for name, f in FIELDS.items()}
VALUES |= {
    "local_groups": st.integers(1, 16),
    "external_groups": st.integers(0, 16),
    "adaptive_initial_j": st.floats(0, 8),
    "adaptive_min_j": st.integers(0, 8),
    "adaptive_max_j": st.integers(0, 16),
    "heartbeat_interval": st.floats(0, 1e3, exclude_min=True),
    "endpoint": st.dictionaries(WORDS, st.integers() | WORDS, min_size=1),
    "max_stages": st.just(1),
    "dynamic_sampling": st.just(1),
    "average_every": st.just(0),
    "averaging": st.just("plain"),
    "outer_rate": st.just(0.7),
    "outer_momentum": st.just(0.9),
    "revise": st.fixed_dictionaries({"answers": st.integers(1, 9)}, optional={"peers": st.integers(0, 9)}),
    "chat_template_args": st.dictionaries(WORDS, st.integers() | WORDS | st.booleans(), min_size=1),
    "task_table": st.dictionaries(WORDS, st.dictionaries(WORDS, st.integers() | WORDS | st.lists(WORDS)), min_size=1),
}
"""By setting; the last ones small, so that most combinations are allowed."""


def settings_total(flags: dict[str, Any]) -> int:
    """N of settings that are made of these flags."""
    local = flags.get("local_groups", 4 if flags.get("test_mode") else 8)
    return int(local + flags.get("external_groups", 0))


@given(st.fixed_dictionaries({}, optional=VALUES))
def test_another_process_with_the_environment_of_these_settings_has_these_settings(flags: dict[str, Any]) -> None:
    beat, timeout = flags.get("heartbeat_interval", 1.0), flags.get("liveness_timeout", 15.0)
    assume(timeout >= 3 * beat)
    on, total = flags.setdefault("adaptive", False), settings_total(flags)
    node_id = flags.get("node_id") or ""
    assume(node_id != "judge" and not ENDS_LIKE_A_SLOT.search(node_id) and not why_reserved(node_id))
    assume(not on or total >= 2)
    low, high = flags.get("adaptive_min_j", 0), flags.get("adaptive_max_j", total - 1)
    assume(not on or low <= flags.get("adaptive_initial_j", low) <= high <= total - 1)
    assume(not flags.get("planters") or flags.get("planted_words"))
    settings = load(**flags)
    assert load(settings.as_environment()) == settings


def test_another_process_in_test_mode_has_what_was_asked_for_even_where_it_is_the_default() -> None:
    settings = load({"TEST_MODE": "1", "NUM_TRAIN_SAMPLES": "8", "NUM_GENERATIONS": "8", "MAX_ROUNDS": "2000"})
    assert load(settings.as_environment()) == settings


def test_an_environment_without_settings_has_no_name_of_any() -> None:
    environ = {"HOME": "/root", "SWARM_PATH": "/a", "GDRIVE_PATH": "/a", "SEED": "7", "PATH": "/bin"}
    assert without_settings(environ) == {"HOME": "/root", "PATH": "/bin"}


# ── how a setting is declared ──────────────────────────────────────────────────────────────────────────────────────
def test_a_default_that_its_own_range_forbids_fails_at_import() -> None:
    source = Path(settings_module.__file__).read_text("utf-8")
    wrong = source.replace('setting(8, "NUM_TRAIN_SAMPLES"', 'setting(0, "NUM_TRAIN_SAMPLES"')
    with pytest.raises(msgspec.ValidationError, match="local_groups"):
        exec(compile(wrong, "settings.py", "exec", dont_inherit=True), {"__name__": __name__})


def test_every_setting_says_what_it_means_and_what_is_allowed() -> None:
    assert all(one.meaning for one in declared().values())
    assert all(allowed(f.type) for f in FIELDS.values())


def test_the_shared_folder_is_an_absolute_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/home/anna")
    assert load().shared_folder == tmp_path / "runs"
    assert load(path="~/runs").shared_folder == Path("/home/anna/runs")


def test_no_variable_sets_two_settings() -> None:
    names = [name for f in FIELDS.values() for name in f.metadata["env"]]
    assert len(names) == len(set(names))
    assert all(name.startswith("SWARM_") or name in {row[0] for row in OWNERS} | {"CHECKPOINT_KEEP"} for name in names)


def test_each_setting_is_in_one_section() -> None:
    shown = sections(declared().values())
    assert sorted(name for names in shown.values() for name in names) == sorted(FIELDS)


def test_in_a_bucket_nodes_beat_and_look_less_often_unless_somebody_says_otherwise() -> None:
    folder, bucket = load(path="runs").cadence, load(path="s3://mine/runs").cadence
    assert (folder.heartbeat_interval, folder.liveness_timeout, folder.reconcile_interval) == (1.0, 15.0, 2.0)
    assert (bucket.heartbeat_interval, bucket.liveness_timeout, bucket.reconcile_interval) == (60.0, 240.0, 10.0)
    said = {"SWARM_CADENCE": '{"heartbeat_interval": 5}'}
    assert load(said, path="s3://mine/runs").cadence.heartbeat_interval == 5.0
    sources = sources_of({"path": "s3://mine/runs"}, {"SWARM_RECONCILE_INTERVAL": "3"})
    assert sources["heartbeat_interval"] == "default in a bucket"
    assert sources["reconcile_interval"] == "environment variable SWARM_RECONCILE_INTERVAL"


def test_how_a_model_is_asked_is_a_nodes_own_choice() -> None:
    own = load(system_prompt="You sort.", instruction="Answer.", stop="</answer>", chat_template_args={"a": False})
    assert own.experiment_identity() == load().experiment_identity()
    assert own.as_recorded()["stop"] == ["</answer>"]
    assert own.as_recorded()["chat_template_args"] == {"a": False}


def test_an_argument_that_would_spoil_every_prompt_is_refused_before_anything_starts() -> None:
    with pytest.raises(ConfigError, match="must not set add_generation_prompt"):
        load(chat_template_args={"add_generation_prompt": False})
