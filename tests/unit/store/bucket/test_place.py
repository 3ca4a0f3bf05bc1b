"""A bucket as the shared place: how it is named, and what it says that it cannot do."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import obstore.exceptions
import obstore.store
import pytest

from swarm.config.place import bucket_url, is_url, place_of
from swarm.errors import ConfigError, StoreError
from swarm.store.bucket.client import BucketClient
from swarm.store.bucket.credentials import BEFORE_THE_END, Credentials
from swarm.store.bucket.place import open_bucket
from swarm.store.place import open_place


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("s3://mine", "s3://mine"),
        ("s3://mine/a/b/", "s3://mine/a/b"),
        ("S3://mine/a", "s3://mine/a"),
        ("gs://mine/a", "gs://mine/a"),
        ("s3://mine/a?endpoint=https://s3.hf.co/anna", "s3://mine/a?endpoint=https://s3.hf.co/anna"),
        ("hf://anna/mine/a", "s3://mine/a?endpoint=https://s3.hf.co/anna"),
        ("hf://buckets/anna/mine", "s3://mine?endpoint=https://s3.hf.co/anna"),
        ("s3://mine?compress=zstd", "s3://mine?compress=zstd"),
        ("s3://mine?region=eu-north-1&endpoint=http://x:1", "s3://mine?endpoint=http://x:1&region=eu-north-1"),
    ],
)
def test_every_process_has_the_same_name_for_a_bucket(text: str, place: str) -> None:
    assert place_of(text) == place == place_of(place)


@pytest.mark.parametrize("text", ["./runs", "/mnt/s3", "C:\\runs", "s3:/mine", "runs//a"])
def test_what_is_no_url_is_a_folder(text: str) -> None:
    assert not is_url(text)


@pytest.mark.parametrize(
    "text",
    [
        "s3://anna:hunter2@mine/a",
        "s3://mine/a?aws_secret_access_key=hunter2",
        "s3://mine/a?endpoint=http://anna:hunter2@host",
        "s3://mine/a?endpoint=https://host/x?token=hunter2",
        "s3://mine/a#hunter2",
        "s3://",
        "s3:///a",
        "s3://mine/a/../b",
        "s3://mine/a//b",
        "s3://mine/a~b",
        "s3://mine?endpoint=ftp://host",
        "gs://mine?endpoint=http://host",
        "ftp://mine/hunter",
        "hf://anna",
        "hf://buckets/anna",
        "hf://anna/mine?endpoint=http://host",
        "s3://mi ne/",
        "s3://mine?region=<x>",
        "s3://mine?compress=gzip",
        "s3://[mine",
    ],
)
def test_secrets_and_odd_urls_are_refused_and_not_repeated(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        bucket_url(text)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("variable", ["AWS_REGION", "AWS_DEFAULT_REGION"])
def test_a_region_that_the_environment_names_is_left_to_the_library(variable: str) -> None:
    assert "region" not in open_bucket(bucket_url("s3://mine"), {variable: "eu-north-1"}).config
    assert open_bucket(bucket_url("s3://mine"), {}).config["region"] == "us-east-1"


def test_a_bucket_is_asked_once_for_what_is_tried_again_and_counted_here() -> None:
    once, again = (open_bucket(bucket_url("s3://mine"), {}, retries=retries).retry_config for retries in (False, True))
    assert once
    assert again
    assert once["max_retries"] == 0 < again["max_retries"]


def test_who_lacks_the_library_is_told_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "obstore.store", None)
    with pytest.raises(ConfigError, match=r'pip install .*"obstore'):
        open_bucket(bucket_url("s3://mine"))


def test_a_bucket_says_what_only_a_folder_can() -> None:
    place = open_place("s3://mine/runs?endpoint=http://127.0.0.1:9")
    for attempt in (lambda: place.move("a", "b"), lambda: place.alone("studies/a", "x")):
        with pytest.raises(StoreError, match="is a bucket and cannot"):
            attempt()


def test_credentials_come_from_the_usual_file_of_the_profile(tmp_path: Path) -> None:
    (tmp_path / "credentials").write_text(
        "[default]\naws_access_key_id=A\naws_secret_access_key=B\n[work]\naws_access_key_id=C\naws_secret_access_key=D%x\n"
    )
    (tmp_path / "config").write_text("[profile work]\nregion=eu-north-1\nendpoint_url=http://127.0.0.1:9\n")
    files = {"AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "credentials"), "AWS_CONFIG_FILE": str(tmp_path / "config")}
    work = open_bucket(bucket_url("s3://mine"), files | {"AWS_PROFILE": "work"})
    assert keys_of(work) == ("C", "D%x", None)
    assert (work.config["region"], work.config["endpoint"]) == ("eu-north-1", "http://127.0.0.1:9")
    default = open_bucket(bucket_url("s3://mine?region=us-west-1&endpoint=http://127.0.0.1:8"), files)
    assert keys_of(default) == ("A", "B", None)
    assert (default.config["region"], default.config["endpoint"]) == ("us-west-1", "http://127.0.0.1:8")
    (tmp_path / "credentials").write_text(
        "[default]\naws_access_key_id=E\naws_secret_access_key=F\naws_session_token=G\n"
    )
    assert keys_of(default) == ("E", "F", "G"), "the file is read again"


def keys_of(bucket: Any) -> tuple[str, str, str | None]:
    found = bucket.credential_provider()
    assert found["expires_at"] is not None
    return found["access_key_id"], found["secret_access_key"], found["token"]


def test_variables_that_change_are_read_again_and_roles_are_left_to_obstore() -> None:
    environ = {"AWS_ACCESS_KEY_ID": "A", "AWS_SECRET_ACCESS_KEY": "B"}
    bucket = open_bucket(bucket_url("s3://mine"), environ)
    assert keys_of(bucket) == ("A", "B", None)
    environ |= {"AWS_SESSION_TOKEN": "C"}
    assert keys_of(bucket) == ("A", "B", "C")
    assert open_bucket(bucket_url("s3://mine"), {"AWS_WEB_IDENTITY_TOKEN_FILE": "/x"}).credential_provider is None


GIVEN = {"Version": 1, "AccessKeyId": "A", "SecretAccessKey": "B", "SessionToken": "C"}


@pytest.mark.parametrize(
    ("environ", "region"), [({"AWS_REGION": "eu-1"}, None), ({"AWS_DEFAULT_REGION": "eu-1"}, None), ({}, "us-east-1")]
)
def test_a_region_is_taken_from_the_environment_and_named_only_where_there_is_none(
    environ: dict[str, str], region: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(obstore.store, "from_url", lambda *_, config, **__: asked.append(config))
    open_bucket(bucket_url("s3://mine/place"), {"AWS_ACCESS_KEY_ID": "x", **environ})
    assert [config.get("region") for config in asked] == [region]


@pytest.mark.parametrize("refusal", [obstore.exceptions.GenericError("no"), ValueError("no")])
def test_a_configuration_that_the_library_refuses_is_an_error_of_the_place(
    refusal: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuses(*_: object, **__: object) -> None:
        raise refusal

    monkeypatch.setattr(obstore.store, "from_url", refuses)
    with pytest.raises(StoreError, match="s3://mine"):
        open_bucket(bucket_url("s3://mine/place"), {"AWS_ACCESS_KEY_ID": "x"})


def test_the_program_of_a_profile_is_asked_again_shortly_before_its_credentials_expire(tmp_path: Path) -> None:
    said, config, begun = tmp_path / "said.json", tmp_path / "config", datetime(2026, 1, 1, 12, tzinfo=UTC)
    config.write_text(f"[default]\ncredential_process = cat {said}\n")
    said.write_text(json.dumps(GIVEN | {"Expiration": "2026-01-01T13:00:00Z"}))
    given = Credentials({"AWS_CONFIG_FILE": str(config), "HOME": str(tmp_path)}, lambda: begun)()
    assert (given["access_key_id"], given["secret_access_key"], given["token"]) == ("A", "B", "C")
    assert given["expires_at"] == begun + timedelta(minutes=60) - BEFORE_THE_END


@pytest.mark.parametrize(
    "program", ["false", "echo {}", "/nowhere/at/all", "echo '[]'", "sh -c 'cat SAID; echo words >&2; exit 3'"]
)
def test_a_program_that_gives_no_credentials_is_named_with_its_words(tmp_path: Path, program: str) -> None:
    (said := tmp_path / "said.json").write_text(json.dumps(GIVEN))
    (tmp_path / "config").write_text(f"[default]\ncredential_process = {program.replace('SAID', str(said))}\n")
    files = {"AWS_CONFIG_FILE": str(tmp_path / "config"), "AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "none")}
    bucket = open_bucket(bucket_url("s3://mine?endpoint=http://127.0.0.1:9"), files)
    with pytest.raises(StoreError, match="credential_process") as caught:
        BucketClient(bucket, "s3://mine").put("a", b"")
    assert "see the file of AWS's profiles" in str(caught.value)
    assert ("words" in str(caught.value)) == ("words" in program)
