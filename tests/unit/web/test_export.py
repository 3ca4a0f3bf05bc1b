"""The page frozen into a file: whole, and with nothing in it that is fetched or obeyed."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
from pathlib import Path
from typing import Any

import pytest

from swarm.store.place import open_place
from swarm.web.assets import served
from swarm.web.export import MODULES, frozen_page, sampled_rounds
from swarm.web.place_list import place_document
from swarm.web.series import DRAWN
from tests.unit.web.web_factory import a_look, make_shown


def frozen(path: Path, **place: Any) -> str:
    look = a_look(path)
    look.refresh(1.7e9)
    return frozen_page("exp", look, place or place_document(open_place(path), path), 1.7e9).decode()


def kept_in(page: str) -> dict[str, Any]:
    packed = re.search(r'id="frozen">([^<]*)<', page)
    assert packed
    kept: dict[str, Any] = json.loads(gzip.decompress(base64.b64decode(packed[1])))
    return kept


def test_a_frozen_page_holds_what_a_page_asks_for(tmp_path: Path) -> None:
    make_shown(tmp_path)
    kept = kept_in(frozen(tmp_path))
    documents = kept["documents"]
    assert kept["experiment"] == "exp"
    assert documents["series"]["nodes"]["alice"]["columns"].keys() == {*DRAWN}
    assert documents["sampled"] == [0, 1, 2]
    assert documents["stages/0"] == {"round": 0, "stages": {"0": ["alice", "bob"]}}
    assert documents["answers/0/0/alice"]["node"] == "alice"
    assert {"standing", "matrix", "tasks", "tasks?node=bob", "settings", "journal", "/api/place"} <= documents.keys()


def test_its_scripts_and_style_are_allowed_by_their_digests_and_nothing_is_fetched(tmp_path: Path) -> None:
    make_shown(tmp_path)
    page = frozen(tmp_path)
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)
    assert policy
    assert "default-src 'none'" in policy[1]
    assert "unsafe" not in policy[1]
    inline = re.findall(r"<(?:script|script type=\"module\"|style)>(.*?)</(?:script|style)>", page, re.DOTALL)
    assert len(inline) == 3
    for text in inline:
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy[1]
    assert not re.search(r'<(link rel="stylesheet"|script[^>]* src=)', page)


def test_hostile_names_do_not_end_the_script_that_holds_them(tmp_path: Path) -> None:
    make_shown(tmp_path)
    page = frozen(tmp_path, experiments=[{"name": "</script><script>alert(1)</script>"}])
    assert "alert(1)" not in page
    assert kept_in(page)["documents"]["/api/place"]["experiments"][0]["name"].startswith("</script>")


def test_the_modules_that_are_joined_are_all_there_are_and_declare_no_name_twice() -> None:
    scripts = {name for name in served() if name.endswith(".js")}
    assert scripts == {*MODULES}
    own = "\n".join(served()[name].decode() for name in MODULES[1:])
    declared = re.findall(r"^(?:export )?(?:async )?(?:const|let|function|class) (\w+)", own, re.MULTILINE)
    assert len(declared) == len({*declared})


@pytest.mark.parametrize(
    ("rounds", "sampled"), [(0, []), (3, [2, 1, 0]), (2000, [1999, 1713, 1428, 1142, 857, 571, 286, 0])]
)
def test_rounds_of_which_answers_are_kept_are_spread_over_the_run(rounds: int, sampled: list[int]) -> None:
    assert sampled_rounds(rounds) == sampled


def test_experiments_and_studies_stand_side_by_side(tmp_path: Path) -> None:
    make_shown(tmp_path)
    (tmp_path / "experiments" / "torn" / "state").mkdir(parents=True)
    (tmp_path / "experiments" / "torn" / "state" / "current_state.json").write_text("{")
    (tmp_path / "experiments" / "elsewhere").symlink_to(tmp_path / "experiments" / "exp")
    found = {of["name"]: of for of in place_document(open_place(tmp_path), tmp_path)["experiments"]}
    assert (found["exp"]["rounds_done"], found["exp"]["finished"], found["exp"]["workers"]) == (3, True, 2)
    assert found["exp"]["cumulative"] == pytest.approx(2 * (0.1 + 0.11 + 0.12))
    assert "link" in found["elsewhere"]["problem"]
    assert found["torn"]["rounds_done"] == 0
