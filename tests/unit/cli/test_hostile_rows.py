"""Whatever numbers and texts stand in a stranger's lines, every view shows the others', and no command to a terminal.

Each example appends lines of any JSON to the logs of a node and looks through every command.
"""

from __future__ import annotations

import csv
import io
import json
import tempfile
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from swarm.cli.main import run
from swarm.records.rows import read_rows
from swarm.wire.messages import MetricsRow
from tests.layout import Layout
from tests.unit.views.factories import append, make_experiment, make_row, run_of

pytest.importorskip("pandas")

HUGE = "1" * 5000
LITERALS = (
    *("1e308", "-1e308", "1.7976931348623157e308", "5e-324", "-0.0", "NaN", "Infinity", "-Infinity", "1e999", HUGE),
    *("-" + HUGE, "9007199254740991", "9007199254740992", "18446744073709551616", "-1", "0", "1", "2", "true", "null"),
)
START = (
    '{"timestamp":1.0,"node_id":"mallory","experiment":"exp","role":"worker","incarnation":"",'
    '"settings":{"tasks":[1]},"machine":{"gpus":[1]}}'
)
WORDS = (
    *("\x1b[2J", "\x9b2J", "\u202eevil", "\u2066\u200b\u200e"),
    *("=cmd|' /C calc'!A0", "+1", "-1", "@x", "\tx", "\rx", ""),
)
numbers = st.one_of(st.sampled_from(LITERALS), st.integers().map(str), st.floats().map(json.dumps))


def _json(fields: dict[str, str]) -> str:
    return "{" + ",".join(f"{name}:{value}" for name, value in fields.items()) + "}"


words = st.one_of(st.sampled_from(WORDS), st.text(max_size=8))
texts = st.builds(lambda text, ascii_: json.dumps(text, ensure_ascii=ascii_), words, st.booleans())
maps = st.dictionaries(texts, st.one_of(numbers, texts), max_size=3).map(_json)
values = st.one_of(numbers, texts, maps, st.dictionaries(texts, maps, max_size=2).map(_json))
FIELDS = (*MetricsRow.__struct_fields__, "event", "level", "exception", "fields", "count", "reason", "rounds_done")


def plausible(layout: Layout, number: int = 1) -> dict[str, str]:
    row = msgspec.json.decode(msgspec.json.encode(make_row(layout, "mallory", number)))
    return {json.dumps(name): json.dumps(value) for name, value in row.items()}


def spoilt(layout: Layout, changes: dict[str, str]) -> bytes:
    return _json(plausible(layout) | {json.dumps(name): value for name, value in changes.items()}).encode(
        "utf-8", "replace"
    )


pytestmark = pytest.mark.usefixtures("no_settings_from_outside")


def shown(path: Path, *arguments: str) -> str:
    """What a command prints; it ends as commands do, and prints nothing that a terminal would obey."""
    out = io.TextIOWrapper(io.BytesIO(), "utf-8", newline="")
    with redirect_stdout(out), redirect_stderr(out):
        code = run([*arguments, "--path", str(path)])
    out.flush()
    text = out.buffer.getvalue().decode()  # type: ignore[attr-defined]
    assert code in (0, 1, 2), text
    assert "Traceback" not in text
    assert_harmless(text)
    return text


def assert_harmless(text: str) -> None:
    bad = {c for c in text.replace("\r\n", "\n") if not c.isprintable() and c not in "\n\t"}
    assert not bad, f"{bad!r} in {text[:300]!r}"


LIGHT = (
    ("status",),
    ("status", "--json"),
    ("logs", "--metrics"),
    ("logs", "--metrics", "--json"),
    ("summary",),
    ("summary", "--json"),
    ("validate", "--partial"),
    ("validate", "--partial", "--json"),
    *(("export", "--table", table, "--format", form, "-o", "-")
      for table in ("metrics", "events", "judge", "rewards", "rollouts") for form in ("csv", "jsonl")),
)  # fmt: skip


def look_everywhere(path: Path) -> Iterator[tuple[tuple[str, ...], str]]:
    for command in LIGHT:
        yield command, shown(path, *command, "--experiment", "exp")
    yield ("list",), shown(path, "experiment", "list")


@settings(max_examples=5, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(st.dictionaries(st.sampled_from(FIELDS), values, max_size=4), min_size=1, max_size=4), st.booleans())
def test_no_line_of_a_stranger_ends_a_view(changes: list[dict[str, str]], as_events: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        layout = make_experiment(Path(folder), workers=("alice",), rounds=2)
        for line in (spoilt(layout, change) for change in changes):
            append(layout.metrics_file("mallory"), line)
            append(layout.events_file("mallory"), line)
            append(layout.root / "logs" / "judge" / "judge.jsonl", line)
        for command, text in look_everywhere(layout.path):
            if "--json" in command and "logs" not in command:
                json.loads(text)
            if "csv" in command:
                assert_no_formula(text)


def assert_no_formula(text: str) -> None:
    for cells in csv.reader(io.StringIO(text, newline="")):
        for cell in cells:
            assert not cell.startswith(("=", "+", "@", "\t", "\r")), cell
            assert not cell.startswith("-") or is_number(cell), cell


def is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


MANY = json.dumps({f"n{i}": 1 for i in range(5000)})


def blown_up(layout: Layout) -> dict[str, Any]:
    """Every number of the row as large as JSON has it."""
    row = msgspec.json.decode(msgspec.json.encode(make_row(layout, "mallory", 1)))
    return {name: "1e308" for name, value in row.items() if isinstance(value, float) and name != "my_reward"}


def test_rewards_without_bounds_are_left_out_and_said_by_each_view(tmp_path: Path) -> None:
    layout = make_experiment(tmp_path)
    for _ in range(3):
        append(layout.metrics_file("mallory"), spoilt(layout, {"my_reward": "1e308"}))
    append(layout.metrics_file("mallory"), spoilt(layout, blown_up(layout)))
    said = dict(look_everywhere(tmp_path))
    for view in (("status",), ("summary",)):
        assert "mallory: 3 rows left out, 1 clamped: my_reward of round 1 expected in [0, 1], got 1e+308" in said[view]
    assert "3 rows left out: my_reward of round 1" in said["validate", "--partial"]
    assert "1 rows of mallory had a number clamped" in said["validate", "--partial"]
    rows, _, _, odd = read_rows(run_of(layout), "mallory")
    assert [row.my_reward for row in rows] == [make_row(layout, "mallory", 1).my_reward]
    assert (odd.left_out, odd.clamped) == (3, 1)
    assert json.loads(said["summary", "--json"])["out_of_range"]["mallory"]["left_out"] == 3


@pytest.mark.parametrize(
    ("said", "taken"),
    [
        ({"answer_tag_rate": "7", "seconds_round": "-5"}, {"answer_tag_rate": 1.0, "seconds_round": 0.0}),
        ({"timestamp": "1e308", "loss": "-1e308"}, {"timestamp": 1e11, "loss": -1e12}),
        ({"external_groups": "9007199254740991"}, {"external_groups": 10**12}),
        ({"refused_files": f'{{"x":{"9" * 30},"y":-3}}'}, {"refused_files": {"x": 10**12, "y": 0}}),
        ({"task_rewards": '{"a":1e300,"b":0.5}'}, {"task_rewards": {"a": 1.0, "b": 0.5}}),
        ({"refused_by_peer": '{"p":{"x":-1}}'}, {"refused_by_peer": {"p": {"x": 0}}}),
        ({"publish_to_pool": "[1e300,0.5]"}, {"publish_to_pool": [1e9, 0.5]}),
        ({"external_by_model": MANY}, {"external_by_model": {f"n{i}": 1 for i in range(1000)}}),
        pytest.param({"executor_busy": "1.0004"}, {"executor_busy": 1.0}, id="two clocks, without a word"),
    ],
)
def test_each_kind_of_number_has_a_range(tmp_path: Path, said: dict[str, str], taken: dict[str, Any]) -> None:
    layout = make_experiment(tmp_path)
    append(layout.metrics_file("mallory"), spoilt(layout, said))
    [row], _, _, odd = read_rows(run_of(layout), "mallory")
    assert {name: getattr(row, name) for name in taken} == taken
    assert odd.clamped == ("executor_busy" not in said)


def test_rows_out_of_range_are_drawn_diagnosed_and_exported(tmp_path: Path) -> None:
    layout = make_experiment(tmp_path)
    append(layout.metrics_file("mallory"), spoilt(layout, {"my_reward": "1e308"}))
    append(layout.metrics_file("mallory"), spoilt(layout, blown_up(layout) | {"round": "9007199254740991"}))
    assert "cumulative" in shown(tmp_path, "summary", "--experiment", "exp", "--plot", str(tmp_path / "a.png"))
    assert (tmp_path / "a.png").stat().st_size > 1000
    assert "wrote" in shown(
        tmp_path, "export", "--experiment", "exp", "--table", "events", "-o", str(tmp_path / "a.parquet")
    )
    assert "doctor" not in shown(tmp_path, "doctor", "--experiment", "exp", "--seconds", "0.01")


def test_an_event_with_an_integer_of_5000_digits_is_exported_as_its_line(tmp_path: Path) -> None:
    layout = make_experiment(tmp_path)
    append(layout.events_file("mallory"), b'{"timestamp":1.0,"event":"x","n":%s}' % HUGE.encode())
    text = shown(tmp_path, "export", "--experiment", "exp", "--table", "events", "--format", "jsonl", "-o", "-")
    [row] = [row for line in text.splitlines() if (row := json.loads(line))["node_id"] == "mallory"]
    assert HUGE in row["fields"]["line"]


@pytest.mark.parametrize("deep", ["[" * 900 + "]" * 900, '{"a":' * 900 + "1" + "}" * 900])
def test_what_is_nested_as_deeply_as_json_may_be_fails_no_view(tmp_path: Path, deep: str) -> None:
    layout = make_experiment(tmp_path)
    append(layout.events_file("mallory"), b'{"timestamp":1.0,"event":"x","level":"error","n":%s}' % deep.encode())
    append(layout.root / "logs" / "mallory" / "starts.jsonl", START.replace("[1]", deep).encode())
    assert "deep" not in shown(tmp_path, "status", "--started", "--experiment", "exp")
    for form in ("csv", "jsonl"):
        text = shown(tmp_path, "export", "--experiment", "exp", "--table", "events", "--format", form, "-o", "-")
        assert "mallory" in text


def test_the_size_of_a_flood_of_names_is_not_counted_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    layout = make_experiment(tmp_path)
    monkeypatch.setattr("swarm.records.listing.MOST_WALKED", 7)
    deep = layout.root
    for _ in range(300):
        deep = deep / "d"
    deep.mkdir(parents=True)
    assert "over" in shown(tmp_path, "experiment", "list").splitlines()[1]
