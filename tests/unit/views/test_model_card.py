"""What a model card says of the texts that a model was trained on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from swarm.config import Settings
from swarm.views import model_card as cards
from swarm.views.model_card import MOST_NAMED, MOST_SPANS, CardContents
from swarm.wire.judge_messages import ExamRow
from swarm.wire.messages import MetricsRow, NodeStart
from tests.layout import Layout
from tests.unit.views.factories import make_row, make_start

LAYOUT = Layout(Path("/nowhere"), "exp")


def model_card(node: str, experiment: str, rounds_done: int, rows: list[MetricsRow], **more: Any) -> str:
    return cards.model_card(CardContents(node, experiment, rounds_done, rows, **more))


def lived(*columns: dict[str, object]) -> list[MetricsRow]:
    return [make_row(LAYOUT, "anna", number, **fields) for number, fields in enumerate(columns)]


def test_groups_are_counted_by_publisher_model_licence_and_consent_up_to_the_checkpoint() -> None:
    one = {
        "local_groups": 4,
        "external_groups": 3,
        "external_by_peer": {"ben": 1, "me": 2},
        "external_by_model": {"person": 2, "tiny-gpt2": 1},
        "external_by_licence": {"CC0-1.0": 2},
        "external_by_consent": {"train+publish": 2},
    }
    card = model_card("anna", "exp", 2, lived(one, one | {"external_by_licence": {}}, one))
    assert "In 2 rounds: 8 groups of its own, 6 of others." in card
    for line in (
        "| itself | 8 |",
        "| me | 4 |",
        "| person | 4 |",
        "| not said | 4 |\n| CC0-1.0 | 2 |",
        "| train+publish (others may train on them and publish them again) | 4 |\n| not said | 2 |",
    ):
        assert line in card


def test_the_groups_of_all_stages_of_a_round_count() -> None:
    both = [make_row(LAYOUT, "anna", 0, stage=stage, local_groups=4, external_groups=1) for stage in (0, 1)]
    assert "In 1 rounds: 8 groups of its own, 2 of others." in model_card("anna", "exp", 1, both)


def test_words_of_strangers_are_nothing_that_markdown_or_html_obeys_and_many_are_summed_up() -> None:
    evil = "x](http://e)|<script>`\n# hi\x1b[2J" + "y" * 500
    many = {f"p{n}": 1 for n in range(MOST_NAMED + 50)}
    card = model_card("anna", "exp", 1, lived({"external_groups": 151, "external_by_licence": {evil: 1, **many}}))
    assert "<script>" not in card
    assert "\x1b" not in card
    assert "\n# hi" not in card
    assert "](http" not in card
    assert max(map(len, card.splitlines())) < 400
    assert "| others | 51 |" in card


def started(**fields: Any) -> NodeStart:
    return make_start(LAYOUT, "anna", **({"settings": Settings().as_recorded()} | fields))


def test_the_rewards_of_the_rounds_stand_in_a_table_of_bounded_size() -> None:
    rows = lived(*({"my_reward": number / 400, "answer_tag_rate": 0.5, "local_groups": 4} for number in range(200)))
    card = model_card("anna", "exp", 200, rows)
    assert "| 0 to 9 | 0.011 | 0.500 | - | 0 |" in card
    assert "| 190 to 199 | 0.486 | 0.500 | - | 0 |" in card
    assert card.count(" | 0.500 | ") == MOST_SPANS


def test_rows_that_measure_nothing_are_told_nowhere() -> None:
    assert "How it learned" not in model_card("anna", "exp", 1, lived({"role": "generator", "local_groups": 0}))


def exam_row(node: str, rounds: int, passed: float) -> ExamRow:
    return ExamRow(
        node_id=node, model="m", rounds_done=rounds, task="bf", n=16, pass_at_1=passed, mean_reward=passed, answered=1.0
    )


def test_the_exam_stands_in_it_where_the_node_was_examined() -> None:
    exam = [exam_row("anna", 0, 0.125), exam_row("anna", 9, 0.5), exam_row("ben", 9, 0.75)]
    card = model_card("anna", "exp", 9, [], exam=exam)
    assert "before it and after 9 rounds" in card
    assert "| bf | 16 | 0.125 | 0.500 | 0.125 | 0.500 |" in card
    assert "0.750" not in card
    assert "## Exam" not in model_card("anna", "exp", 9, [], exam=exam[2:])


def test_the_card_names_versions_and_settings_that_matter_or_differ() -> None:
    settings = Settings().as_recorded() | {"cleanup": True, "temperature": 1.0, "path": "/mnt/x", "unknown": "evil"}
    card = model_card("anna", "exp", 9, [], start=started(settings=settings, versions={"torch": "2.13.0"}))
    assert "| torch | 2.13.0 |" in card
    assert "| `ROLLOUT_CLEANUP_ENABLED` | True |" in card
    assert "| `SEED` | 42 |" in card
    assert "| `MODEL_NAME` | tiny-2-qwen2 |" in card
    assert "SWARM_WATCH" not in card
    assert "evil" not in card
    assert "/mnt/x" not in card


def test_a_hostile_start_ends_no_block_and_names_no_model_that_is_none() -> None:
    evil = "x\n```\n# hi\x1b" + "y" * 9999
    settings = {"model": ["o/m\nevil: 1"], "seed": {"a": [[1]]}, "loss": evil, "clip_low": evil}
    start = started(settings=settings, versions={evil: evil})
    card = model_card("anna", "exp", 1, [], start=start)
    assert "\n```" not in card
    assert "\x1b" not in card
    assert "base_model" not in card
    assert max(map(len, card.splitlines())) < 5000


def test_a_model_of_the_hub_is_named_as_the_base() -> None:
    whole = model_card("anna", "exp", 1, [], start=started(settings={"model": ["Qwen/Qwen2.5-0.5B"]}))
    assert '\nbase_model: "Qwen/Qwen2.5-0.5B"\n' in whole
    assert '\nbase_model: "o/m"\n' in model_card("anna", "exp", 1, [], base="o/m", merged=True)
    local = model_card("anna", "exp", 1, [], base="/home/me/model")
    assert "base_model" not in local
    assert "/home/me" not in local
