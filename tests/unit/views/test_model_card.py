"""What a model card says of the texts that a model was trained on."""

from __future__ import annotations

from pathlib import Path

from swarm.views.model_card import MOST_NAMED, model_card
from swarm.wire.messages import MetricsRow
from tests.layout import Layout
from tests.unit.views.factories import make_row

LAYOUT = Layout(Path("/nowhere"), "exp")


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


def test_a_model_that_was_trained_alone_names_nobody() -> None:
    card = model_card("anna", "exp", 9, lived({"local_groups": 4}))
    assert "licence of others" not in card
    assert "4 groups of its own, 0 of others" in card


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
