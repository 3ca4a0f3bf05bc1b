"""A dataset of one's own: which rows are asked, and what is refused before anything starts."""

from __future__ import annotations

import csv
import hashlib
from pathlib import Path
from typing import Any

import msgspec
import pytest

from swarm.algo.seeds import HELD_OUT_SEEDS
from swarm.errors import ConfigError
from swarm.tasks.definitions import profile_of
from swarm.tasks.registry import Families, complete
from tests.unit.tasks.dataset.making import json_lines, prepared, request, sums

HUGE = 10**30
NUMBERS = {"dataset": "q.jsonl", "scorer": "number", "answer_after": "####"}


def write_csv(path: Path, rows: list[dict[str, Any]]) -> None:
    with path.open("w", newline="", encoding="utf-8-sig") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)


def write_parquet(path: Path, rows: list[dict[str, Any]]) -> None:
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    parquet.write_table(pyarrow.Table.from_pylist(rows), path)


@pytest.mark.parametrize(
    ("name", "write"), [("q.jsonl", json_lines), ("q.csv", write_csv), ("q.parquet", write_parquet)]
)
def test_all_kinds_of_files_ask_the_same_questions_each_a_function_of_seed_and_index(
    tmp_path: Path, name: str, write: Any
) -> None:
    write(tmp_path / name, sums(20))
    families, parameters = prepared(tmp_path, **NUMBERS | {"dataset": name})
    questions = [families.make(request("mine", parameters, seed)) for seed in range(50)]
    assert {question.prompt for question in questions} <= {row["question"] for row in sums(20)}
    assert [question.metadata["row"] for question in questions[:5]] == [0, 13, 6, 3, 14]
    assert all(families.score(question, f" {question.answer}.0 ") == 1 for question in questions)
    assert all(families.score(question, "77") == 0 for question in questions)
    asked = [families.make(request("mine", parameters, 5, index)).prompt for index in range(21)]
    assert (len(set(asked)), asked[20]) == (20, asked[0]), "indices count on"


def test_held_out_rows_are_asked_by_judges_alone_and_equal_questions_stay_on_one_side(tmp_path: Path) -> None:
    json_lines(tmp_path / "q.jsonl", sums(100) * 2)
    families, parameters = prepared(tmp_path, **NUMBERS, held_out=0.3)
    training = {families.make(request("mine", parameters, seed)).prompt for seed in range(2_000)}
    first = HELD_OUT_SEEDS[0]
    judged = {families.make(request("mine", parameters, seed)).prompt for seed in range(first, first + 1_000)}
    assert not training & judged
    assert len(training | judged) == 100
    assert 15 <= len(judged) <= 45
    families, parameters = prepared(tmp_path, **NUMBERS)
    asked = {families.make(request("mine", parameters, seed)).prompt for seed in range(first, first + 2_000)}
    assert len(asked) == 100, "with none held out judges ask any row"


def test_a_question_is_put_together_from_columns(tmp_path: Path) -> None:
    json_lines(tmp_path / "q.jsonl", [{"q": "Which {one}?", "c": ["red", "blue"], "right": 1}])
    families, parameters = prepared(
        tmp_path, dataset="q.jsonl", question="{{x}} {q}\n{c}", answer="right", scorer="choice"
    )
    question = families.make(request("mine", parameters, 0))
    assert question.prompt == "{{x}} Which {one}?\nA. red\nB. blue".replace("{{x}}", "{x}")
    assert families.score(question, "B") == 1


def test_the_bytes_are_named_in_the_origin_and_the_path_is_not(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    for folder in (one, other):
        folder.mkdir()
        json_lines(folder / "q.jsonl", sums(10))
    first, second = (complete({"mine": NUMBERS}, folder)["mine"] for folder in (one, other))
    assert first["dataset"] != second["dataset"]
    assert profile_of("mine", first) == profile_of("mine", second)
    assert first["sha256"] == hashlib.sha256((one / "q.jsonl").read_bytes()).hexdigest()
    json_lines(other / "q.jsonl", sums(11))
    assert profile_of("mine", complete({"mine": NUMBERS}, other)["mine"]) != profile_of("mine", first)
    assert complete({"mine": first}, other)["mine"] == first


def test_another_file_is_refused_with_both_digests_at_the_beginning_and_in_a_server(tmp_path: Path) -> None:
    json_lines(tmp_path / "q.jsonl", sums(10))
    tasks = complete({"mine": NUMBERS}, tmp_path)
    json_lines(tmp_path / "q.jsonl", sums(11))
    got = hashlib.sha256((tmp_path / "q.jsonl").read_bytes()).hexdigest()
    for attempt in (lambda: complete(tasks, tmp_path), lambda: Families((), tasks).prepare()):
        with pytest.raises(ConfigError, match=rf"SHA-256 {got}, expected {tasks['mine']['sha256']}"):
            attempt()


@pytest.mark.parametrize(
    ("file", "text", "problem"),
    [
        ("q.jsonl", b"", "has no rows"),
        ("q.jsonl", b'{"question": "a", "answer": "1"}\n\n[]\n', r"q\.jsonl:3: expected an object .*, got '\[\]'$"),
        ("q.jsonl", b'{"question": "a"}', r"q\.jsonl:1: expected the column 'answer', got 'question'"),
        ("q.jsonl", b'{"question": "a", "answer": null}', r"q\.jsonl:1: the column 'answer' is null"),
        ("q.jsonl", b'{"question": "a", "answer": NaN}', r"q\.jsonl:1: .*invalid character \(byte 28\)"),
        ("q.jsonl", b'{"question": "a", "answer": 1e999}', r"q\.jsonl:1: .*Number out of range"),
        ("q.jsonl", b'{"question": "a", "answer": %d}' % HUGE, r"q\.jsonl:1: a whole number of more than 64 bits"),
        ("q.jsonl", b'{"question": [[-%d]], "answer": "1"}' % HUGE, r"q\.jsonl:1: a whole number of more than 64"),
        (
            "q.jsonl",
            b'{"question": "a", "answer": "\xff"}',
            r"q\.jsonl:1: expected UTF-8, got the byte 0xff in column 30",
        ),
        ("q.jsonl", b'{"question": "\\ud800", "answer": "1"}', r"q\.jsonl:1: .*surrogate"),
        ("q.jsonl", b'{"question": "a", "answer": ' + b"[" * 40 + b"]" * 40 + b"}", r"q\.jsonl:1: .*nested deeper"),
        ("q.jsonl", b'{"question": "a", "answer": ' + b"[" * 90_000, r"q\.jsonl:1: .*recursion"),
        ("q.jsonl", b'{"question": "' + b"a" * 20_001 + b'", "answer": "1"}', r"q\.jsonl:1: the question has 20001"),
        ("q.jsonl", b'{"question": " ", "answer": "1"}', r"q\.jsonl:1: the question has 1 characters"),
        ("q.jsonl", b'{"question": "a", "answer": "' + b"a" * 200_001 + b'"}', r"q\.jsonl:1: the row has more"),
        ("q.jsonl", b" " * (2**20 + 2), r"q\.jsonl:1: the line has more than"),
        ("q.jsonl", b'{"question": "a", "answer": ""}', r"q\.jsonl:1: the answer is empty"),
        ("q.csv", b"", r"q\.csv:1: expected a header"),
        ("q.csv", b"question,answer,answer\na,1,2\n", r"q\.csv:1: two columns are called 'answer'"),
        ("q.csv", b"question,answer\na,1\nb\n", r"q\.csv:3: expected 2 fields, as the header has, got 1"),
        ("q.csv", b'question,answer\na,"1\n', r"q\.csv:2: unexpected end of data"),
        ("q.parquet", b"PAR1", r"q\.parquet: cannot be read as Parquet"),
        ("q.txt", b"a", r"expected a dataset \*\.jsonl, \*\.csv, \*\.parquet, got"),
    ],
)
def test_what_cannot_be_asked_is_refused_with_file_and_line(
    tmp_path: Path, file: str, text: bytes, problem: str
) -> None:
    (tmp_path / file).write_bytes(text)
    with pytest.raises(ConfigError, match=rf"^\[tasks\.mine\]: .*{problem}"):
        prepared(tmp_path, dataset=file)


@pytest.mark.parametrize(
    ("parameters", "problem"),
    [
        ({"dataset": "nowhere.jsonl"}, "no file .*nowhere.jsonl; did you mean 'q.jsonl'"),
        ({"scorer": "numbr"}, "scorer must be one of exact, .* got 'numbr'; did you mean 'number'?"),
        ({"scorer": "os:"}, "scorer must be one of"),
        ({"ignore_cas": True}, "unknown parameter 'ignore_cas'; did you mean 'ignore_case'?"),
        ({"ignore_case": "yes"}, "ignore_case: Expected `bool`, got `str`"),
        ({"tolerance": 1.0}, "unknown parameter 'tolerance'"),
        ({"held_out": 1.0}, r"Expected `float` < 1.0 - at `\$.held_out`"),
        ({"scorer": "number", "tolerance": -1.0}, "tolerance: Expected `float` >= 0"),
        ({"held_out": 1e-9}, "none of 10 rows is held out"),
        ({"question": ["question"]}, r"Expected `str`, got `array` - at `\$.question`"),
        ({"split": "train"}, "split and config choose among a folder's files"),
        ({"scorer": "no.such.module:f"}, "No module named 'no'"),
    ],
)
def test_parameters_that_cannot_be_are_refused(tmp_path: Path, parameters: dict[str, Any], problem: str) -> None:
    json_lines(tmp_path / "q.jsonl", sums(10))
    with pytest.raises(ConfigError, match=problem):
        prepared(tmp_path, **{"dataset": "q.jsonl"} | parameters)


def test_of_a_folder_config_and_split_choose_files_whose_names_and_bytes_are_its_digest(tmp_path: Path) -> None:
    for part, count in (("main/train-00000-of-00002", 3), ("main/train-00001-of-00002", 2), ("main/test-0", 7)):
        (tmp_path / "data" / part).parent.mkdir(parents=True, exist_ok=True)
        json_lines(tmp_path / "data" / f"{part}.jsonl", sums(count))
    (tmp_path / "data/socratic").mkdir()
    json_lines(tmp_path / "data/socratic/train-0.jsonl", sums(9))
    task = {"dataset": "data", "config": "main", "split": "train"}
    families, parameters = prepared(tmp_path, **task)
    rows = {families.make(request("mine", parameters, 0, index)).metadata["row"] for index in range(20)}
    assert rows == set(range(5))
    (tmp_path / "data/main/train-00001-of-00002.jsonl").rename(tmp_path / "data/main/train-2.jsonl")
    assert complete({"mine": task}, tmp_path)["mine"]["sha256"] != parameters["sha256"]
    with pytest.raises(ConfigError, match=r"files \*\.jsonl, .* of config 'main', split 'dev' in .*data, got 0"):
        prepared(tmp_path, **task | {"split": "dev"})


def test_a_dataset_of_the_hub_is_fetched_by_who_begins_the_run_or_said_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import huggingface_hub

    asked: list[dict[str, Any]] = []

    def snapshot_download(repo_id: str, **named: Any) -> str:
        asked.append({"repo_id": repo_id, **named})
        (named["local_dir"] / "main").mkdir(parents=True)
        json_lines(named["local_dir"] / "main/train-00000-of-00001.jsonl", sums(3))
        return str(named["local_dir"])

    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot_download)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HOME", str(tmp_path / "cache"))
    _, parameters = prepared(tmp_path, dataset="openai/gsm8k", config="main", split="train")
    assert parameters["dataset"] == str(tmp_path / "cache/swarm/openai--gsm8k")
    assert (asked[0]["repo_id"], asked[0]["repo_type"]) == ("openai/gsm8k", "dataset")
    assert "main/*.parquet" in asked[0]["allow_patterns"]

    def unreachable(*_: object, **__: object) -> str:
        raise OSError("no route to host")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", unreachable)
    with pytest.raises(ConfigError, match="does not give a dataset of that name: no route to host; fetch it elsewhere"):
        complete({"mine": {"dataset": "openai/gsm8k"}}, tmp_path)


def test_a_function_of_ones_own_is_known_by_its_source_and_sees_the_whole_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    source = tmp_path / "my_scorers_for_rows.py"
    source.write_text("def near(row, answer):\n    return 1 - abs(row['n'] + 1 - int(answer)) / 10\n")
    json_lines(tmp_path / "q.jsonl", sums(10))
    with pytest.raises(ConfigError, match=r"its own answer not be scored: ValueError"):
        prepared(tmp_path, dataset="q.jsonl", scorer="my_scorers_for_rows:near")
    families, parameters = prepared(tmp_path, **NUMBERS | {"scorer": "my_scorers_for_rows:near"})
    assert parameters["scorer_sha256"] == hashlib.sha256(source.read_bytes()).hexdigest()
    question = families.make(request("mine", parameters, 0))
    assert families.score(question, str(question.metadata["row"] + 2)) == pytest.approx(0.9)
    source.write_text(source.read_text() + "# changed\n")
    with pytest.raises(ConfigError, match=r"the module of scorer my_scorers_for_rows:near has SHA-256 .* expected"):
        Families((), {"mine": parameters}).prepare()


def test_rows_cannot_be_changed_by_what_runs_in_a_child(tmp_path: Path) -> None:
    from swarm.tasks.dataset.reading import PackedRows

    rows = PackedRows(map(msgspec.msgpack.encode, [{"a": 1}, {"a": [2, "x"]}]))
    assert [rows[0], rows[1]] == [{"a": 1}, {"a": [2, "x"]}]
    assert msgspec.msgpack.encode({"a": 1}) in rows._pages[:]
    with pytest.raises(TypeError):
        rows._pages[0] = 1  # type: ignore[index]
