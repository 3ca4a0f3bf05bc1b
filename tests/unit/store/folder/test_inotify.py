"""Which limit ended a watcher: what people are told to type is what helps."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest

from swarm.store.folder.inotify import cause_and_remedy

NO_FILE_OR_INSTANCE = "Error creating recommended watcher: Too many open files (os error 24)"
NO_WATCH = 'OS file watch limit reached. about ["/x"] (Error { kind: MaxFilesWatch, paths: ["/x"] })'


def system(folder: Path, **limits: int) -> Path:
    for name, number in limits.items():
        file = folder.joinpath(*name.split("__"))
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{number}\n")
    return folder


def test_too_many_open_files_is_a_matter_of_instances_where_a_file_can_be_opened(tmp_path: Path) -> None:
    limits = system(tmp_path, fs__inotify__max_user_instances=700, user__max_inotify_instances=2**31 - 1)
    cause, remedy = cause_and_remedy(NO_FILE_OR_INSTANCE, limits)
    assert "700 inotify instances" in cause
    assert remedy == "sudo sysctl fs.inotify.max_user_instances=1400"


def test_too_many_open_files_is_a_matter_of_descriptors_where_none_can_be_opened(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    try:
        _, remedy = cause_and_remedy(NO_FILE_OR_INSTANCE, tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert remedy.startswith("ulimit -n ")


@pytest.mark.parametrize("error", [NO_WATCH, "No space left on device (os error 28)"])
def test_the_limit_that_holds_is_the_one_to_raise(tmp_path: Path, error: str) -> None:
    limits = system(tmp_path, fs__inotify__max_user_watches=192536, user__max_inotify_watches=8)
    cause, remedy = cause_and_remedy(error, limits)
    assert "8 inotify watches" in cause
    assert remedy == "sudo sysctl user.max_inotify_watches=1024"


@pytest.mark.parametrize("limit", [None, "no number"])
def test_a_limit_that_cannot_be_read_is_named_all_the_same(limit: str | None, tmp_path: Path) -> None:
    file = tmp_path / "fs" / "inotify" / "max_user_watches"
    file.parent.mkdir(parents=True)
    if limit is not None:
        file.write_text(limit)
    assert cause_and_remedy(NO_WATCH, tmp_path)[1] == "sudo sysctl fs.inotify.max_user_watches=1024"


def test_another_failure_is_told_as_it_is(tmp_path: Path) -> None:
    assert cause_and_remedy("the watching thread was killed", tmp_path) == ("the watching thread was killed", "")
