"""How rollout groups look in a terminal."""

from __future__ import annotations

from typing import Any

from swarm.records.groups import FoundGroups, Group, Learner, Shown, Turned
from swarm.views.groups import columns_of, folded, render, render_group


def make_shown(response: str, reward: float | None = 0.0, **fields: Any) -> Shown:
    base: dict[str, Any] = {"response": response, "cut": 0, "finished": True, "advantage": None}
    return Shown(**(base | {"claimed_reward": reward} | fields))


def make_group(*completions: Shown, **fields: Any) -> Group:
    base: dict[str, Any] = {
        "round": 3,
        "stage": 0,
        "node": "alice",
        "slot": 1,
        "task": "binary_matrix",
        "model": "tiny",
        "question": "1 + 1?",
        "cut": 0,
        "answer": "2",
        "published_at": float("nan"),
        "rounds_trained": 3,
        "licence": "",
        "completions": completions,
    }
    return Group(**(base | fields))


GROUP = make_group(
    make_shown("<answer>2</answer>", 1.0, advantage=1.0),
    make_shown("three, I think", 0.0, advantage=-1.0, finished=False),
    trained_on=(Learner("bob", 3), Learner("carl", 4)),
)


def test_a_group_with_its_completions_one_below_the_other() -> None:
    assert render_group(GROUP, width=90) == (
        "── alice/3/0/1: round 3, stage 0, binary_matrix, by tiny after 3 updates, published at an\n"
        "unknown time\n"
        "question\n"
        "  1 + 1?\n"
        "true answer\n"
        "  2\n"
        "  [1] reward 1, advantage +1.00\n"
        "  <answer>2</answer>\n"
        "\n"
        "  [2] reward 0, advantage -1.00, cut at the limit\n"
        "  three, I think\n"
        "\n"
        "trained on by bob (round 3), carl (round 4)"
    )


def test_no_line_is_wider_than_the_terminal() -> None:
    long = make_group(*[make_shown("word " * 40 + "x" * 200 + "漢字" * 60) for _ in range(5)], question="q" * 300)
    for width in (20, 60, 100, 200):
        lines = render_group(long, width=width).split("\n")
        assert max(map(columns_of, lines)) <= width


def test_a_conversation_is_shown_turn_by_turn() -> None:
    said = make_shown("4", 1.0, turns=(Turned("3", "too low"),))
    text = render_group(make_group(said), width=80)
    places = [text.index(words) for words in ("2 turns", "turn 1", "reply", "too low", "turn 2")]
    assert places == sorted(places)


def test_what_is_left_out_is_said() -> None:
    group = make_group(make_shown("a", cut=5), cut=9)
    text = render_group(group, width=80)
    assert "... and 5 characters more" in text
    assert "... and 9 characters more" in text


def test_text_is_folded_at_spaces_where_it_can_be() -> None:
    assert folded("one two three", 8) == ["one two", "three"]
    assert folded("a\n\nb\tc", 8) == ["a", "", "b   c"]
    assert folded("x" * 5, 2) == ["xx", "xx", "x"]
    assert folded("漢字漢", 4) == ["漢字", "漢"]


def test_what_is_not_shown_is_said() -> None:
    assert "no rollouts are there" in render(FoundGroups(groups=[], more=0, refused={}), width=80)
    text = render(FoundGroups(groups=[GROUP], more=2, refused={"rollouts/x": "\x1b[2Jjunk"}), width=80)
    assert "and 2 more groups" in text
    assert "warning rollouts/x: " in text
    assert "\x1b" not in text
