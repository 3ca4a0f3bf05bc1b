"""Runs made by rl-swarm: recognised, read without a falsehood, never written to."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path

import pytest

from swarm.cli.main import run
from swarm.errors import ProtocolError, StoreError
from swarm.plugins.rl_swarm import maker
from swarm.plugins.rl_swarm import run as rl_swarm_run
from swarm.plugins.rl_swarm.forms import MetricsLine, Reward, said_in
from swarm.plugins.rl_swarm.rewards import RENAMED_AT, KnownReward, Unknown, added_to, measure, measure_file
from swarm.records.files import SMALL_FILE
from swarm.records.groups import WantedGroups, read_groups
from swarm.records.made_by import as_ours, made_by, unknown_columns
from swarm.records.reader import snapshot
from swarm.records.rows import read_metrics, read_rows
from swarm.store.base import Blob
from swarm.store.folder import store as folder_store
from swarm.store.folder.beneath import Within
from swarm.store.folder.fetch import read_tagged
from swarm.store.place import open_place
from swarm.store.run import Run
from swarm.views.summary import summarise_run
from swarm.views.validate import validate
from swarm.wire import keys
from swarm.wire.messages import MetricsRow
from tests.layout import Layout
from tests.unit.views.factories import make_experiment, run_of

FIXTURE = Path(__file__).parents[2] / "fixtures" / "rl_swarm_run"
Captured = pytest.CaptureFixture[str]
pytestmark = pytest.mark.usefixtures("no_settings_from_outside")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return Path(shutil.copytree(FIXTURE, tmp_path / "place"))


def looked_at(place: Path, name: str) -> Run:
    return as_ours(open_place(place).open(name))


def append(place: Path, name: str, line: str) -> None:
    with open(place / "experiments" / name, "a", encoding="utf-8") as file:
        file.write(line)


# ── who made it ─────────────────────────────────────────────────────────────────────────────────────────────────────
@pytest.mark.parametrize(
    ("top", "clock", "made"),
    [
        (["progress_node_1.json", "state"], None, True),
        (["state"], b'{"round": 5, "stage": 0, "updated_at": 1.5, "updated_by": "coordinator"}', True),
        (["state"], b'{"round": 0, "stage": 0, "experiment_name": "e", "config_overrides": {}}', True),
        (["state"], (Path(__file__).parents[2] / "golden" / "state.json").read_bytes(), False),
        (["state", "progress_", "progress_.json"], None, False),
        (["state"], b'{"round": 5, "sta', False),
        (["state"], b"[1, 2]", False),
        ([], None, False),
    ],
)
def test_rl_swarm_is_known_by_its_progress_files_or_a_clock_without_a_version(
    top: list[str], clock: bytes | None, made: bool
) -> None:
    assert maker.made(top, clock) is made


def test_a_run_of_this_program_stays_its_own_whatever_else_lies_there(tmp_path: Path) -> None:
    layout = make_experiment(tmp_path)
    run = run_of(layout)
    had = made_by(run)
    layout.experiment_file.touch()
    (layout.root / "progress_node_1.json").write_bytes(b"{}")
    assert (had, made_by(run), unknown_columns(run)) == ("", "", frozenset())
    assert as_ours(run) is run


def test_a_run_made_by_rl_swarm_is_never_written_to(place: Path) -> None:
    store = looked_at(place, "two_workers").store
    for write in (
        lambda: store.put("state/current_state.json", b"{}"),
        lambda: store.append_records("logs/node_1/metrics.jsonl", [b"{}"], durable=True),
        lambda: store.remove("peers/node_1.json"),
        lambda: store.remove_prefix("rollouts"),
        lambda: store.open_log("logs/node_1/stdout.log"),
    ):
        with pytest.raises(StoreError, match="never written"):
            write()


# ── what is read ────────────────────────────────────────────────────────────────────────────────────────────────────
def test_rewards_are_means_per_completion_one_per_round(place: Path) -> None:
    rows = read_metrics(looked_at(place, "two_workers"))
    logged = (FIXTURE / "experiments/two_workers/logs/node_1/cumulative_metrics.jsonl").read_text("utf-8").splitlines()
    sums = [json.loads(line)["cumulative_reward"] for line in logged]
    assert sums[1] > 1  # what a reader of ours would take for a reward
    assert [row.cumulative_reward for row in rows["node_1"]] == pytest.approx([total / 16 for total in sums])
    assert {node: [row.round for row in of_node] for node, of_node in rows.items()} == {
        "node_1": [0, 1, 2, 3],
        "node_2": [0, 1, 2, 3],
    }


def test_its_progress_is_what_its_nodes_did_and_not_what_its_clock_says(place: Path) -> None:
    (place / "experiments/two_workers/state/current_state.json").write_text('{"round": 900, "stage": 0}')
    now = snapshot(looked_at(place, "two_workers"))
    assert (now.made_by, now.state, now.problem) == ("rl-swarm", None, "")
    assert now.rounds_done == 4
    assert now.finished is not None
    assert now.finished.rounds == 4
    assert now.workers == ["node_1", "node_2"]


def test_training_complete_is_not_believed_where_an_exception_ended_it(place: Path) -> None:
    said = "[rgym_exp] 2026-11-23 00:02:55,000 ERROR: Exception occurred during game run.\n"
    append(place, "two_workers/logs/node_1/stdout.log", said)
    now = snapshot(looked_at(place, "two_workers"))
    ending = now.events["node_1"].ending
    assert ending is not None
    assert (ending.how, now.finished) == ("crashed", None)
    assert not validate(looked_at(place, "two_workers")).ok


def test_training_complete_is_not_believed_before_all_rounds_were_done(place: Path) -> None:
    for folder in ("rollouts", "rewards"):
        shutil.rmtree(place / "experiments/two_workers" / folder / "round_3")
    metrics = place / "experiments/two_workers/logs/node_1/metrics.jsonl"
    kept = [line for line in metrics.read_text("utf-8").splitlines(True) if json.loads(line)["round"] < 3]
    metrics.write_text("".join(kept))
    ending = snapshot(looked_at(place, "two_workers")).events["node_1"].ending
    assert ending is not None
    assert (ending.how, ending.rounds_done) == ("stopped", 3)


def test_the_1_that_its_early_versions_added_is_taken_off(place: Path) -> None:
    rows = read_metrics(looked_at(place, "early"))
    of_completions = {"node_1": [0.75, 5.3, 1.7, 0.0], "node_2": [4.0, 6.25, 0.8, 5 / 3]}  # by reasoning-gym
    for node, sums in of_completions.items():
        assert [row.my_reward for row in rows[node]] == pytest.approx([total / 16 for total in sums])


def test_a_run_without_any_reward_on_record_has_rounds_and_no_rows(place: Path) -> None:
    for node in ("node_1", "node_2"):
        (place / f"experiments/early/logs/{node}/metrics.json").unlink()
    run = looked_at(place, "early")
    assert read_metrics(run) == {}
    assert snapshot(run).rounds_done == 4
    report = validate(run)
    failed = [check.name for check in report.checks if not check.ok]
    assert failed == ["rewards of every round"]


def test_what_is_whole_is_said_to_be_whole_and_a_missing_file_is_found(place: Path) -> None:
    assert validate(looked_at(place, "two_workers")).ok
    (place / "experiments/two_workers/rollouts/round_2/stage_0/node_1.json").unlink()
    shutil.rmtree(place / "experiments/two_workers/rollouts/round_1")
    failed = {check.name for check in validate(looked_at(place, "two_workers")).checks if not check.ok}
    assert failed == {"rollouts of every round", "files behind every metrics row"}


def test_torn_and_junk_lines_are_found_as_in_any_run(place: Path) -> None:
    append(place, "two_workers/logs/node_1/metrics.jsonl", 'what?\n{"round": 4, "ti')
    rows = read_rows(looked_at(place, "two_workers"), "node_1")
    assert (len(rows.rows), rows.junk, rows.torn) == (4, 1, True)


def test_a_run_that_goes_on_is_followed(place: Path) -> None:
    from swarm.records.reader import RunReader

    reader = RunReader(looked_at(place, "two_workers"))
    assert reader.refresh().progress["node_1"].rounds_done == 4
    new = {"timestamp": 1795392180.0, "round": 4, "stage": 0, "stage_reward": 8.0, "num_samples": 16}
    append(place, "two_workers/logs/node_1/metrics.jsonl", json.dumps(new) + "\n")
    again = reader.refresh().progress["node_1"]
    assert (again.rounds_done, again.rewards[4]) == (5, 0.5)


HOSTILE = (b"", b"\xff\xfe", b"[" * 5000, b'{"round": 1e400}', b'{"round": -1, "timestamp": "x"}\n', b"null")
BOTH = b'{"timestamp": 1e308, "round": %d, "my_reward": 1e308, "mean_reward": 1, "adaptive_J": 2, "adaptive_I": 2}\n'
FILES: dict[str, tuple[bytes, ...]] = {
    **dict.fromkeys(("state/current_state.json", "peers/node_1.json", "progress_node_1.json"), HOSTILE),
    "logs/node_1/metrics.jsonl": (*HOSTILE, b"".join(BOTH % number for number in (0, 1, 2**53 - 1))),
    "rewards/round_0/stage_0/node_1.json": (b'{"round": 0, "stage": 0, "reward": 1e999, "peer_id": "node_1"}',),
    "rollouts/round_0/stage_0/node_1.json": (b'{"rollouts": {"a": [' + b"{" * 3000,),
}


@pytest.mark.parametrize("key", FILES)
def test_hostile_files_of_such_a_run_crash_no_view(place: Path, key: str) -> None:
    for data in FILES[key]:
        (place / "experiments/two_workers" / key).write_bytes(data)
        run = looked_at(place, "two_workers")
        now = snapshot(run)
        assert isinstance(now.rounds_done, int)
        assert now.finished is None or now.finished.rounds <= 4
        validate(run)
        assert all(0 <= row.my_reward <= 1 for rows in read_metrics(run).values() for row in rows)


# ── rewards, rule by rule ───────────────────────────────────────────────────────────────────────────────────────────
def line(at: float = RENAMED_AT + 1, **fields: float) -> MetricsLine:
    return MetricsLine(timestamp=at, round=0, **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("lines", "completions", "added", "expected"),
    [
        ([line(my_reward=2.0, mean_reward=1.5), line(stage_reward=2.0, num_samples=8)], 0, None, 0.25),
        ([line(stage_reward=2.0, num_samples=8), line(stage_reward=2.0, num_samples=8)], 0, None, 0.25),
        ([line(my_reward=2.0, mean_reward=1.5), line(my_reward=2.0, mean_reward=1.5)], 16, None, 0.125),
        ([line(my_reward=2.0, mean_reward=1.5)], 16, 1.0, 0.125),
        ([line(my_reward=3.0)], 16, 1.0, 0.125),
        ([line(my_reward=2.0)], 16, 0.0, 0.125),
        ([line(my_reward=0.0)], 16, 1.0, 0.0),
        ([line(my_reward=0.0)], 16, None, 0.0),
        ([line(my_reward=3.0)], 16, None, "may be 1 too high"),
        ([line(my_reward=3.0, mean_reward=1.0)], 0, None, "nothing says how many"),
        ([line(my_reward=17.0, mean_reward=1.0)], 16, None, "no sum of 16 rewards"),
        ([line(my_reward=-1.0, mean_reward=1.0)], 16, None, "no sum of 16 rewards"),
    ],
)
def test_a_sum_becomes_a_mean_over_its_completions_and_what_cannot_be_known_is_not_made_up(
    lines: list[MetricsLine], completions: int, added: float | None, expected: float | str
) -> None:
    found = measure(lines, completions, added=added)
    if isinstance(found, KnownReward):
        assert found.mean == expected
    else:
        assert str(expected) in found.why


@pytest.mark.parametrize(
    ("short", "old_name", "added"),
    [
        ([line(my_reward=3.0)], True, 1.0),
        ([line(my_reward=3.0), line(my_reward=0.5)], True, 0.0),
        ([line(RENAMED_AT - 1, my_reward=3.0)], False, 1.0),
        ([line(my_reward=3.0)], False, None),
        ([line(my_reward=3.0), line(my_reward=0.5)], False, 0.0),
    ],
)
def test_whether_1_was_added_shows_by_the_files_name_its_time_or_a_smaller_sum(
    short: list[MetricsLine], old_name: bool, added: float | None
) -> None:
    assert added_to(short, old_name=old_name) == added


def test_what_the_adaptive_rule_says_after_a_round_is_of_the_next_one_that_is_done(place: Path) -> None:
    base = {"timestamp": 1795392180.0, "stage": 0}
    append(place, "two_workers/logs/node_1/metrics.jsonl", json.dumps(base | {"round": 4, "adaptive_J": 3}) + "\n")
    done = base | {"round": 6, "stage_reward": 8.0, "num_samples": 16}
    append(place, "two_workers/logs/node_1/metrics.jsonl", json.dumps(done) + "\n")
    rows = read_metrics(looked_at(place, "two_workers"))["node_1"]
    assert [(row.round, row.adaptive_J or None) for row in rows[-2:]] == [(3, None), (6, 3)]


@pytest.mark.parametrize(
    ("reward", "follows", "why"),
    [
        (3, True, "truncated"),
        (0, True, "truncated"),
        (3.0, False, "several rounds"),
        (99.5, True, "no sum"),
        (3.0, True, ""),
    ],
)
def test_reward_files_are_believed_only_where_they_are_of_one_round_and_whole(
    reward: float, follows: bool, why: str
) -> None:
    found = measure_file(Reward(1, 0, reward, "node_1", 1.5), 16, follows=follows)
    assert isinstance(found, Unknown) is bool(why)
    assert not isinstance(found, Unknown) or why in found.why


def test_what_a_node_printed_at_its_start_gives_its_model_and_groups() -> None:
    head = b"[genrl] 2025-11-12 10:00:00,000 INFO: "
    said = said_in(
        [head + b"Model: /content/m/gpt2/", head + b"Training Config: I=4, J=2, G=8", head + b"Max Rounds: 9"]
    )
    assert (said.model, said.completions, said.external_groups, said.max_rounds) == ("gpt2", 32, 2, 9)
    assert said_in([head + b"Model: Gensyn/Qwen2.5-0.5B-Instruct"]).model == "Gensyn/Qwen2.5-0.5B-Instruct"
    assert said_in([b"\xff" * 100]).completions == 0


def test_every_column_is_either_recorded_or_said_to_be_unknown(place: Path) -> None:
    run = looked_at(place, "two_workers")
    raw = json.loads(run.store.read_records("logs/node_1/metrics.jsonl").records[0])
    written = (set(raw) & set(MetricsRow.__struct_fields__)) - {
        "total_agents"
    }  # a form needs it; no figure is made of it
    assert not written & unknown_columns(run)
    assert Layout(place, "two_workers").run.store.stat("experiment.json") is None


def test_what_nodes_published_is_listed_once_for_all_of_them(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who may write makes as many names and rounds as he likes: a look for each of both took minutes."""
    root = place / "experiments/two_workers"
    for number in range(50):
        (root / "peers" / f"s{number}.json").write_text(f'{{"peer_id": "s{number}", "registered_at": 1.0}}')
        (root / "rewards" / f"round_{number + 100}" / "stage_0").mkdir(parents=True)
    run = looked_at(place, "two_workers")
    listed, stage = list[str](), rl_swarm_run.count_stage
    monkeypatch.setattr(rl_swarm_run, "count_stage", lambda *at: (listed.append(at[1]), stage(*at))[1])
    assert len(snapshot(run).peers) > 50
    assert len(listed) == len(set(listed))


def test_what_is_held_of_a_strangers_lines_is_bounded_and_what_is_not_is_counted(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rl_swarm_run, "MOST_LINES", 40)
    monkeypatch.setattr(rl_swarm_run, "KEPT_JUNK", 3)
    monkeypatch.setattr(rl_swarm_run, "MOST_KEPT", 50)
    line = '{"timestamp": 1.5, "round": 1, "stage_reward": 0.5, "num_samples": 300}\n'
    for node in ("mal_0", "mal_1", "mal_2"):
        (place / f"experiments/two_workers/logs/{node}").mkdir()
        append(place, f"two_workers/logs/{node}/metrics.jsonl", line * 60 + "no line\n" * 10)
    source = rl_swarm_run.RlSwarmRun(open_place(place).open("two_workers").store)
    facts = [source.facts(node) for node in source.nodes()]
    assert [(len(one.lines), len([*one.junk])) for one in facts if one.node.startswith("mal")] == [(40, 30)] * 3
    assert sum(len(one.lines) for _, one in source._facts.values()) <= 50
    rows = read_rows(looked_at(place, "two_workers"), "mal_0")
    assert (len(rows.rows), rows.junk) == (1, 30)


def test_a_file_of_lines_that_are_none_of_rl_swarms_is_read_no_further(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`import` parsed ten million such lines, for 50 s."""
    monkeypatch.setattr(rl_swarm_run, "MOST_JUNK", 20)
    line = '{"timestamp": 1.5, "round": 1, "stage_reward": 0.5, "num_samples": 300}\n'
    (place / "experiments/two_workers/logs/mal_0").mkdir()
    append(place, "two_workers/logs/mal_0/metrics.jsonl", line * 5 + "no line\n" * 1000 + line)
    facts = rl_swarm_run.RlSwarmRun(open_place(place).open("two_workers").store).facts("mal_0")
    assert (len(facts.lines), len([*facts.junk])) == (5, 21)


def test_of_a_file_no_more_is_asked_for_than_is_believed_of_it(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = dict[str, int]()

    def asked_for(file: Within, limit: int, folder: int | None = None) -> Blob:
        asked[file.names[0]] = max(limit, asked.get(file.names[0], 0))
        return read_tagged(file, limit, folder)

    monkeypatch.setattr(folder_store, "read_tagged", asked_for)
    for name in open_place(place).experiments():
        summarise_run(looked_at(place, name))
    assert asked.pop(keys.REWARDS, 0) <= SMALL_FILE
    assert max(asked.values()) <= 16 << 20


STATES = '{"actions": ["x"], "world_state": {"environment_states": {'
MANY = "objects, lists and texts, the limit is 131072"


@pytest.mark.parametrize(
    ("state", "said"),
    [
        (STATES + '"x": [' + "[]," * 200_000 + "1]}}}", MANY),
        (STATES + '"metadata": {"x": [' + '"",' * 200_000 + '""]}}}}', MANY),
        ('{"world_state": {"environment_states": {}}, "actions": [' + '"",' * 2**17 + '""]}', MANY),
        ("{}", "wrote empty objects"),  # as its first versions did: no text is made up
    ],
    ids=["lists", "texts", "completions", "nothing"],
)
def test_rollouts_of_nothing_or_of_more_parts_than_any_node_writes_are_refused(
    place: Path, state: str, said: str
) -> None:
    key = "rollouts/round_0/stage_0/node_1.json"
    (place / "experiments/two_workers" / key).write_text(
        f'{{"peer_id": "node_1", "round": 0, "stage": 0, "timestamp": 1.5, "rollouts": {{"77": [{state}]}}}}'
    )
    with pytest.raises(ProtocolError, match=said):
        looked_at(place, "two_workers").store.get(key, 2**30)


def test_its_answers_and_its_nodes_are_shown_without_what_it_never_recorded(place: Path) -> None:
    run = looked_at(place, "two_workers")
    groups = read_groups(run, WantedGroups(), 4).groups
    assert {group.node for group in groups} <= {"node_1", "node_2"}
    assert groups[0].question
    assert all(shown.claimed_reward is None or 0 <= shown.claimed_reward <= 1 for shown in groups[0].completions)


# ── what every command says of it ───────────────────────────────────────────────────────────────────────────────────


def digest(folder: Path) -> str:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return hashlib.sha256(b"".join(str(path).encode() + path.read_bytes() for path in files)).hexdigest()


def said(capsys: Captured, *words: str, code: int = 0) -> str:
    assert run(list(words)) == code
    found = capsys.readouterr()
    return found.out + found.err


def test_every_view_says_who_made_it_and_writes_nothing(place: Path, capsys: Captured) -> None:
    before = digest(place)
    at = ("--path", str(place), "--experiment", "two_workers")
    listed = said(capsys, "experiment", "list", "--path", str(place)).splitlines()
    assert [line.split()[-1] for line in listed[1:]] == ["rl-swarm", "rl-swarm"]
    assert "torn" not in "".join(listed)
    for command in ("status", "summary", "validate"):
        assert "made by rl-swarm" in said(capsys, command, *at)
    logs = said(capsys, "logs", *at, "--metrics")
    assert "node.finished" in logs
    assert "my_reward=0.171875" in logs
    assert digest(place) == before


def test_a_summary_shows_means_and_a_dash_for_what_nobody_recorded(place: Path, capsys: Captured) -> None:
    text = said(capsys, "summary", "--path", str(place), "--experiment", "two_workers")
    assert "mean reward            0.299   0.095       0.32x" in text
    assert "tagged                     -       -           -" in text
    assert "external groups   -" in text
    found = json.loads(said(capsys, "summary", "--path", str(place), "--experiment", "two_workers", "--json"))
    assert (found["made_by"], found["external_groups"], found["tagged"]["last"]) == ("rl-swarm", None, None)
    for node in ("node_1", "node_2"):
        (place / f"experiments/early/logs/{node}/metrics.json").unlink()
    text = said(capsys, "summary", "--path", str(place), "--experiment", "early")
    assert "left no reward of any round" in text


def test_no_node_starts_in_it(place: Path, capsys: Captured) -> None:
    before = digest(place)
    for command in (
        ["node", "--role", "coordinator"],
        ["node", "--node-id", "anna"],
        ["node", "--nodes", "2"],
        ["up", "--nodes", "2"],
        ["judge", "run"],
    ):
        text = said(capsys, *command, "--path", str(place), "--experiment", "early", code=2)
        assert "made by rl-swarm" in text
        assert "Choose another --experiment" in text
    assert "made by rl-swarm" in said(capsys, "join", str(place), "--experiment", "early", code=2)
    assert digest(place) == before


def test_a_comparison_has_no_sum_of_what_nobody_recorded(place: Path, capsys: Captured) -> None:
    pytest.importorskip("scipy")
    shutil.copytree(place / "experiments" / "two_workers", place / "experiments" / "again")
    lines = said(capsys, "study", "compare", "two_workers", "again", "--path", str(place)).splitlines()
    figures = {line[:18].strip(): line.split()[-4:-2] for line in lines}
    assert figures["cumulative reward"] == ["1.58", "1.58"]
    assert not {"tokens generated", "cumulative tagged", "external groups", "bytes fetched"} & figures.keys()
