"""What leaves the machine names no folder of it, and none of its secrets."""

from __future__ import annotations

from pathlib import Path

import pytest

from swarm.views.redaction import Redaction, redaction_here

HERE = Redaction(
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
        ("said correct-horse", "said <secret>"),
        ("HF_TOKEN=abc", "HF_TOKEN=<secret>"),
        ('{"api_key": "abc"}', '{"api_key": "<secret>"}'),
        ("token hf_abcdefgh12345678 is wrong", "token <secret> is wrong"),
        (f"held to {'Ab1+' * 10}xyz= since", "held to <key> since"),
        ("Authorization: Bearer abcdefgh123", "Authorization: Bearer <secret>"),
        ("from https://ada:pw@host.org/x", "from https://<user>@host.org/x"),
        ("mail ada@example.org at 192.168.1.7", "mail <email> at <address>"),
        ("s3://KEY:abc/def+gh@bucket/x", "s3://<user>@bucket/x"),
        ("postgres://ada:p@ss@db/x", "postgres://<user>@db/x"),
        ("git+ssh://git@host/x", "git+ssh://<user>@host/x"),
        ("https://a/c?sv=2022&sig=ab%2F12%3D&se=2", "https://a/c?sv=2022&sig=<secret>&se=2"),
        (
            "https://b/x?X-Amz-Credential=AB%2F20&X-Amz-Signature=dead",
            "https://b/x?X-Amz-Credential=<secret>&X-Amz-Signature=<secret>",
        ),
        (f"AccountKey={'Zm9v' * 21}Zg==;", "AccountKey=<secret>;"),
        (f"or {'Zm9v' * 21}Zg== alone", "or <key> alone"),
        ('"password": "a horse, a staple"', '"password": "<secret>"'),
        ("password: a horse", "password: <secret>"),
        ("a passphrase=foo-bar, tried twice", "a passphrase=<secret>, tried twice"),
        ("AIzaSyA1234567890abcdefghij ya29.a0AfH6SMBabcdefghij", "<secret> <secret>"),
        ("nvapi-abcdefghij gsk_abcdefghij npm_abcdefghij", "<secret> <secret> <secret>"),
        ("Authorization: Token 0123 45", "Authorization: Token <secret>"),
        ('{"Cookie": "session=a; b=c"}', '{"Cookie": "<secret>"}'),
        (
            "at [2001:db8::1]:8080, fe80::1ff:fe23:4567:890a%eth0, 1:2:3:4:5:6:7:8",
            "at [<address>]:8080, <address>, <address>",
        ),
        (
            "00:1a:2b:3c:4d:5e since 12:34:56.789, std::vector at 22:13:26",
            "<address> since 12:34:56.789, std::vector at 22:13:26",
        ),
        ("open file:///home/bob/x.txt", "open <path>"),
        ("cc -I/opt/bob/include", "cc -I<path>"),
        (r"open \\fileserver\home\bob", "open <path>"),
        (
            "tokens=512, max_tokens: 7, signal=9, config=x, design: y",
            "tokens=512, max_tokens: 7, signal=9, config=x, design: y",
        ),
        ("torch 2.13.0, 4/40 done, reward 0.1/0.2, tasks a/b", "torch 2.13.0, 4/40 done, reward 0.1/0.2, tasks a/b"),
    ],
)
def test_addresses_paths_and_secrets_are_replaced_and_the_rest_stays(text: str, expected: str) -> None:
    assert HERE.redacted(text) == expected


def test_variables_that_say_so_are_secret_whatever_their_value(tmp_path: Path) -> None:
    here = redaction_here(
        {"HF_TOKEN": "plain words", "MY_API_KEY": "another", "KEY": "no", "EDITOR": "vi --clean"}, tmp_path
    )
    said = here.redacted(f"plain words, another, no, vi --clean in {tmp_path}/x, home {Path.home()}/y")
    assert said == "<secret>, <secret>, no, vi --clean in <shared>/x, home ~/y"


@pytest.mark.parametrize(
    "spelled", ['ab/cd+ef"gh', r"ab/cd+ef\"gh", r"ab\/cd+ef\"gh", "ab%2Fcd%2Bef%22gh", "ab/cd%2Bef%22gh"]
)
def test_a_secret_is_known_however_it_is_spelled(tmp_path: Path, spelled: str) -> None:
    here = redaction_here({"AWS_SECRET_ACCESS_KEY": 'ab/cd+ef"gh'}, tmp_path)
    assert here.redacted(f"said {spelled} twice") == "said <secret> twice"


def test_the_password_of_a_url_in_a_variable_is_secret_by_itself(tmp_path: Path) -> None:
    here = redaction_here({"HTTPS_PROXY": "http://ada:hunter2hunter2@proxy:3128"}, tmp_path)
    assert here.redacted("refused hunter2hunter2") == "refused <secret>"


@pytest.mark.parametrize("word", ["x", "x-", "x."])
def test_what_a_stranger_wrote_without_an_end_takes_no_minutes(word: str) -> None:
    assert HERE.redacted(word * 100_000) == word * 100_000


@pytest.mark.parametrize(
    "run",
    [
        "a",
        "a.",
        "eyJ-",
        "a@",
        "token",
        "-----BEGIN ",
        "bearer ",
        '"/',
        "-/",
        "a://",
        "a://@",
        "a:",
        ":",
        "::",
        'token="',
        "pwd:",
        "\\\\a\\",
        "auth",
        "file://",
    ],
)
def test_a_text_is_gone_through_once_however_a_stranger_repeats_what_secrets_begin_with(run: str) -> None:
    """From each of its characters anew, 200,000 of them would take half an hour."""
    assert HERE.redacted(run * (200_000 // len(run)))
