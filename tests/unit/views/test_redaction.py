"""What leaves the machine names neither its user nor its secrets."""

from __future__ import annotations

from pathlib import Path

import pytest

from swarm.views.redaction import Redaction, redaction_here

HERE = Redaction(
    names=(("ada", "<user>"), ("mill", "<host>")),
    folders=(("/srv/team/runs", "<shared>"), ("/home/ada", "~")),
    secrets=("correct-horse",),
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("cannot write /srv/team/runs/experiments/demo", "cannot write <shared>/experiments/demo"),
        ("see /home/ada/.swarm/key", "see ~/.swarm/key"),
        ("see /home/adam/x", "see <path>"),
        ("open '/data/my files/x.json' failed", "open '<path>' failed"),
        (r"open C:\Users\ada\x.json failed", "open <path> failed"),
        ('File "/opt/lib/python3/site-packages/torch/nn.py", line 3', 'File "<packages>/torch/nn.py", line 3'),
        ("pid 7 on mill, by Ada", "pid 7 on <host>, by <user>"),
        ("adapter of the windmill", "adapter of the windmill"),
        ("said correct-horse", "said <secret>"),
        ("HF_TOKEN=abc", "HF_TOKEN=<secret>"),
        ('{"api_key": "abc"}', '{"api_key": "<secret>"}'),
        ("token hf_abcdefgh12345678 is wrong", "token <secret> is wrong"),
        (f"held to {'Ab1+' * 10}xyz= since", "held to <key> since"),
        ("Authorization: Bearer abcdefgh123", "Authorization: Bearer <secret>"),
        ("from https://ada:pw@host.org/x", "from https://<user>@host.org/x"),
        ("mail ada@example.org at 192.168.1.7", "mail <email> at <address>"),
        ("torch 2.13.0, 4/40 done, reward 0.1/0.2, tasks a/b", "torch 2.13.0, 4/40 done, reward 0.1/0.2, tasks a/b"),
    ],
)
def test_who_where_and_secrets_are_replaced_and_the_rest_stays(text: str, expected: str) -> None:
    assert HERE.redacted(text) == expected


def test_variables_that_say_so_are_secret_whatever_their_value(tmp_path: Path) -> None:
    here = redaction_here(
        {"HF_TOKEN": "plain words", "MY_API_KEY": "another", "KEY": "no", "EDITOR": "vi --clean"}, tmp_path
    )
    said = here.redacted(f"plain words, another, no, vi --clean in {tmp_path}/x, home {Path.home()}/y")
    assert said == "<secret>, <secret>, no, vi --clean in <shared>/x, home ~/y"


@pytest.mark.parametrize("word", ["x", "x-", "x."])
def test_what_a_stranger_wrote_without_an_end_takes_no_minutes(word: str) -> None:
    assert HERE.redacted(word * 100_000) == word * 100_000


@pytest.mark.parametrize("run", ["a", "a.", "eyJ-", "a@", "token", "-----BEGIN ", "bearer ", '"/', "-/", "a://"])
def test_a_text_is_gone_through_once_however_a_stranger_repeats_what_secrets_begin_with(run: str) -> None:
    """From each of its characters anew, a million of them would take hours."""
    assert HERE.redacted(run * (1_000_000 // len(run)))
