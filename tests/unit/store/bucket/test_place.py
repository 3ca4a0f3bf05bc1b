"""A bucket as the shared place: how it is named, and what it says that it cannot do."""

from __future__ import annotations

from pathlib import Path

import pytest

from swarm.config.place import bucket_url, is_url, place_of
from swarm.errors import ConfigError, StoreError
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
    files = {
        "AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "credentials"),
        "AWS_CONFIG_FILE": str(tmp_path / "config"),
    }
    config = open_bucket(bucket_url("s3://mine"), files | {"AWS_PROFILE": "work"}).config
    assert (config["access_key_id"], config["secret_access_key"]) == ("C", "D%x")
    assert (config["region"], config["endpoint"]) == ("eu-north-1", "http://127.0.0.1:9")
    config = open_bucket(bucket_url("s3://mine?region=us-west-1&endpoint=http://127.0.0.1:8"), files).config
    assert (config["access_key_id"], config["region"], config["endpoint"]) == ("A", "us-west-1", "http://127.0.0.1:8")
