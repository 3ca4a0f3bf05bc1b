"""The page of `swarm web` in a real browser: live, frozen, on a phone, and against what strangers write."""

from __future__ import annotations

import base64
import re
import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

pytest.importorskip("playwright")
pytest.importorskip("starlette")

import uvicorn
from playwright import sync_api

from benchmarks.made_place import append_round, make_place
from swarm.store.place import open_place
from swarm.types import RoundKey
from swarm.web.export import frozen_page
from swarm.web.look import WebLook
from swarm.web.place_list import place_document
from swarm.wire import keys
from swarm.wire.codec import decode, encode
from swarm.wire.messages import PeerFile, RolloutFile, StateFile
from tests.unit.web.web_factory import a_look, a_service

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), "")
pytestmark = [pytest.mark.engine, pytest.mark.skipif(not BROWSER, reason="no chromium is installed")]
AXE = Path(__file__).parent / "axe" / "axe.min.js"
PATIENCE = 120_000
"""Milliseconds; no machine is too slow."""
ROUNDS, NODES = 60, 5
VIEWS = ("overview", "nodes", "answers", "sharing", "health", "log", "settings", "experiments")
HOSTILE = "<img src=x onerror=\"document.title='obeyed'\"><script>document.title='obeyed'</script>"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run `exp` of five nodes, an answer of which would be obeyed by a careless page."""
    folder = tmp_path_factory.mktemp("place")
    make_place(folder, ROUNDS, NODES, "exp", with_rollouts=3)
    run, key = open_place(folder).open("exp", "test"), keys.rollout(RoundKey(ROUNDS - 1), "worker-0")
    file = decode(run.store.get(key, 1 << 20).data, RolloutFile, key)
    first = msgspec.structs.replace(file.rollouts["0"][0], response=HOSTILE, prompt=HOSTILE)
    groups = file.rollouts | {"0": [first, *file.rollouts["0"][1:]]}
    run.store.put(key, encode(msgspec.structs.replace(file, rollouts=groups)))
    return folder


@contextmanager
def served(place: Path) -> Iterator[str]:
    """The link of a service on a port of its own."""
    service, guard = a_service(place, interval=0.2)
    server = uvicorn.Server(uvicorn.Config(service.app, port=0, access_log=False, log_level="critical", ws="none"))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            thread.join(0.01)
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/?token={guard.token}"
    finally:
        server.force_exit = server.should_exit = True
        thread.join(60)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with sync_api.sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        yield opened
        opened.close()


class Seen:
    """A page, what it asked for, and what went wrong on it."""

    def __init__(self, context: Any) -> None:
        self.page = context.new_page()
        self.page.set_default_timeout(PATIENCE)
        self.asked: list[str] = []
        self.wrong: list[str] = []
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.on("pageerror", lambda error: self.wrong.append(str(error)))
        self.page.on("console", lambda said: self.wrong.append(said.text) if said.type == "error" else None)

    def show(self, view: str, run: str = "exp") -> Any:
        self.page.goto(f"{self.page.url.split('#')[0]}#{run}/{view}")
        self.page.wait_for_selector(f"body[data-ready='{run}/{view.split('/')[0]}']")
        return self.page


@contextmanager
def opened(browser: Any, place: Path, width: int = 1280, **options: Any) -> Iterator[Seen]:
    """The live page, let in, in a context of its own."""
    with (
        served(place) as link,
        closing(browser.new_context(viewport={"width": width, "height": 900}, **options)) as context,
    ):
        seen = Seen(context)
        seen.page.goto(link)
        seen.page.wait_for_url(re.compile(r"/$"))
        yield seen


@pytest.fixture(scope="module")
def desktop(browser: Any, place: Path) -> Iterator[tuple[Any, str]]:
    """A context that was let in, and the address of the service that all its pages ask."""
    with opened(browser, place) as seen:
        yield seen.page.context, seen.page.url


@pytest.fixture
def seen(desktop: tuple[Any, str]) -> Iterator[Seen]:
    """A page on a desktop."""
    context, address = desktop
    seen = Seen(context)
    seen.page.goto(address)
    seen.page.wait_for_selector("body[data-ready]")
    with closing(seen.page):
        yield seen


def painted(page: Any) -> list[int]:
    """Of each canvas on the page, how many points of it are not blank."""
    found: list[int] = page.evaluate(
        """[...document.querySelectorAll("canvas")].map((canvas) => {
          const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
          return data.filter((value, at) => at % 4 === 3 && value > 0).length;
        })"""
    )
    return found


def test_charts_are_drawn_and_nothing_is_asked_of_anybody_else(seen: Seen) -> None:
    page = seen.show("overview")
    page.wait_for_selector("canvas >> nth=2")
    assert len(painted(page)) == 3
    assert min(painted(page)) > 1000
    seen.show("nodes")
    page.wait_for_selector(".chart.small canvas >> nth=8")
    assert min(painted(page)) > 300
    origin = page.url.split("#")[0].rstrip("/")
    assert {url for url in seen.asked if not url.startswith((origin, "data:"))} == set()
    assert seen.wrong == []


def test_a_new_row_comes_by_itself_and_the_papers_pace_is_a_yardstick_for_large_models_alone(
    browser: Any, place: Path, tmp_path: Path
) -> None:
    growing = shutil.copytree(place, tmp_path / "growing")
    with opened(browser, growing) as seen:
        page = seen.show("overview")
        note = "figure:has-text('Cumulative reward') .note"
        page.wait_for_selector("canvas >> nth=2")
        assert "paper" not in page.text_content(note)
        assert f"round {ROUNDS - 1}" in page.text_content("figure .readout")
        append_round(growing, ROUNDS, NODES, "exp")
        page.wait_for_selector(f"figure .readout:has-text('round {ROUNDS}:')", timeout=PATIENCE)
        assert page.text_content(".card:nth-child(4) .note") == f"after {ROUNDS + 1} rounds"
        for node in range(NODES):
            peer = growing / "experiments" / "exp" / keys.peer(f"worker-{node}")
            peer.write_bytes(peer.read_bytes().replace(b"tiny-2-qwen2", b"HuggingFaceTB/SmolLM-360M"))
        append_round(growing, ROUNDS + 1, NODES, "exp")
        page.wait_for_selector(f"{note}:has-text('1,093.31')", timeout=PATIENCE)


def test_answers_are_browsed_filtered_and_led_on_to_who_trained_on_them(seen: Seen, place: Path) -> None:
    page = seen.show("answers")
    page.wait_for_selector("article.group >> nth=3")
    assert page.locator(".completion").count() == 32
    page.select_option("label:has-text('Task') select", "bf")
    assert page.locator("article.group h3").all_text_contents() == ["bf"]
    page.fill("input[name=text]", "no such words")
    assert page.locator("article.group").count() == 0
    page.fill("input[name=text]", "")
    page.select_option("label:has-text('Task') select", "")
    page.click("button[aria-label='Round before']")
    page.wait_for_selector(f"[role=status]:has-text('{ROUNDS - 2} updates')")
    publisher, adopter = adopted_in(place, ROUNDS - 2)
    page.select_option("label:has-text('Published by') select", publisher)
    page.wait_for_selector(f"table:has-text('in round') a:has-text('{adopter}')")
    assert page.url.endswith(f"answers/{ROUNDS - 2}/0/{publisher}")
    page.click(f"table:has-text('in round') a:has-text('{adopter}')")
    page.wait_for_selector(f"[role=status]:has-text('{adopter}')")
    assert seen.wrong == []


def test_behind_the_last_answers_nothing_leads(seen: Seen, place: Path) -> None:
    publisher, adopter = adopted_in(place, ROUNDS - 1)
    page = seen.show(f"answers/{ROUNDS - 1}/0/{publisher}")
    page.wait_for_selector(f"table:has-text('in round') tr:has-text('{adopter}'):has-text('{ROUNDS - 1}')")
    assert page.locator(f"table:has-text('in round') tr:has-text('{ROUNDS - 1}') a").count() == 0
    assert page.locator("button[aria-label='Round after']").is_disabled()


def test_another_view_is_shown_from_its_top(seen: Seen) -> None:
    page = seen.show("overview")
    for link, view in (("nav a:has-text('Health')", "health"), ("table a >> nth=-1", "nodes")):
        page.evaluate("scrollTo(0, document.body.scrollHeight)")
        assert page.evaluate("scrollY") > 0
        page.locator(link).click()
        page.wait_for_selector(f"body[data-ready='exp/{view}']")
        assert page.evaluate("scrollY") == 0


def test_from_what_a_run_was_started_with_a_link_leads_to_what_it_took(seen: Seen) -> None:
    page = seen.show("settings")
    page.click("a:has-text('What it took')")
    page.wait_for_selector("body[data-ready='exp/overview']")
    page.wait_for_selector("tr:has-text('elapsed'):has-text('40 min')")
    assert page.evaluate("scrollY") > 0


def filled(page: Any, element: Any) -> float:
    """The share of the height of a bar that has the colour of its top."""
    picture = base64.b64encode(element.screenshot()).decode()
    share: float = page.evaluate(
        """async (picture) => {
          const image = new Image();
          image.src = `data:image/png;base64,${picture}`;
          await image.decode();
          const canvas = Object.assign(document.createElement("canvas"), { width: image.width, height: image.height });
          const context = canvas.getContext("2d");
          context.drawImage(image, 0, 0);
          const at = (x, y) => context.getImageData(x, y, 1, 1).data.join();
          const rows = Array.from({ length: image.height }, (_, y) => at(4, y));
          return rows.filter((colour) => colour === rows[2]).length / image.height;
        }""",
        picture,
    )
    return share


@pytest.fixture(scope="module")
def troubled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of eight, one of which lies, one is slow and one never ends an answer; the open round has answers."""
    folder = tmp_path_factory.mktemp("troubled")
    make_place(folder, ROUNDS, 8, "exp", with_rollouts=1)
    run = open_place(folder).open("exp", "test")
    key = keys.rollout(RoundKey(ROUNDS - 1), "worker-0")
    file = decode(run.store.get(key, 1 << 20).data, RolloutFile, key)
    run.store.put(keys.rollout(RoundKey(ROUNDS), "worker-0"), encode(msgspec.structs.replace(file, round=ROUNDS)))
    return folder


def test_what_stands_out_begins_with_who_lies_and_names_each_node_before_one_twice(
    browser: Any, troubled: Path
) -> None:
    with opened(browser, troubled) as seen:
        page = seen.show("overview")
        page.wait_for_selector(".hint")
        named = page.locator(".hint strong").all_text_contents()
        assert named[0] == "worker-3"
        assert {*named[:3]} == {"worker-3", "worker-5", "worker-7"}
        assert page.locator(".hint strong a").all_text_contents() == named
        assert "`" not in page.locator("section:has-text('What stands out')").text_content()
        said = page.locator(".hint code").all_text_contents()
        assert "swarm ask --experiment exp --model MODEL --task basic_arithmetic" in said
        meters = page.locator("meter").all()
        most = max(meters, key=lambda meter: int(meter.get_attribute("aria-label").split(": ")[-1]))
        assert filled(page, most) > 0.8
        page.wait_for_selector(".live.over:has-text('stopped')")
        page = seen.show(f"answers/{ROUNDS - 1}/0/worker-0")
        page.click("button[aria-label='Round after']:not(:disabled)")
        page.wait_for_selector("[role=status]:has-text('worker-0')")
        page.wait_for_selector("button[aria-label='Round after']:disabled")
        assert page.url.endswith(f"answers/{ROUNDS}/0/worker-0")


def change(place: Path, key: str, form: Any, **fields: Any) -> None:
    run = open_place(place).open("exp", "test")
    found = decode(run.store.get(key, 1 << 20).data, form, key)
    run.store.put(key, encode(msgspec.structs.replace(found, **fields)))


def test_who_is_silent_stands_first_in_the_health_of_a_run_that_is_not_over(browser: Any, tmp_path: Path) -> None:
    make_place(tmp_path, 20, 4, "exp", with_rollouts=1)
    began = time.time()
    for node in range(4):
        change(tmp_path, keys.peer(f"worker-{node}"), PeerFile, last_seen=began - 600)
    with opened(browser, tmp_path) as seen:
        for view in ("overview", "health"):
            page = seen.show(view)
            said = page.text_content(".hint >> nth=0")
            assert said.startswith("All 4 nodes have been silent since "), view
            assert "nothing is being done" in said
            assert "start them again with the same command" in said
        for node in (0, 2, 3):
            change(tmp_path, keys.peer(f"worker-{node}"), PeerFile, last_seen=began + 1e6)
        page.wait_for_selector(".hint:has-text('worker-1: silent since')")
        sync_api.expect(page.locator(".hint:has-text('silent')")).to_have_count(1, timeout=PATIENCE)
        assert "start it again" in page.text_content(".hint >> nth=0")
        change(tmp_path, keys.peer("worker-1"), PeerFile, status="stopped")
        page.wait_for_selector(".hint:has-text('silent')", state="detached")
        change(tmp_path, keys.peer("worker-1"), PeerFile, status="active")
        page.wait_for_selector(".hint:has-text('worker-1: silent since')")
        change(tmp_path, keys.STATE, StateFile, round=40, finished=True)
        page.wait_for_selector(".hint:has-text('silent')", state="detached")


def test_the_page_of_a_node_begins_with_what_is_found_of_it_and_leads_to_its_answers(seen: Seen) -> None:
    page = seen.show("health")
    page.click(".hint a:has-text('worker-3')")
    page.wait_for_selector("body[data-ready='exp/nodes']")
    page.wait_for_selector(".hint")
    assert all("worker-3" in said for said in page.locator(".hint").all_text_contents())
    assert "others found" in page.text_content(".hint >> nth=0")
    page.click("a:has-text('Its answers')")
    page.wait_for_selector("[role=status]:has-text('worker-3, tiny-2-qwen2')")
    seen.show("nodes")
    assert page.locator(".hint").count() == 0


def test_what_a_node_that_is_not_believed_claims_is_no_success(seen: Seen) -> None:
    page = seen.show(f"answers/{ROUNDS - 1}/0/worker-3")
    page.wait_for_selector(".completion:has-text('claims 1.000, not believed')")
    assert page.locator(".completion.good, .reward.good").count() == 0
    page = seen.show(f"answers/{ROUNDS - 1}/0/worker-1")
    page.wait_for_selector(".completion.good:has-text('reward 1.000')")
    assert page.locator(".completion:has-text('not believed')").count() == 0


def test_what_no_start_was_noted_of_is_not_recorded(browser: Any, tmp_path: Path) -> None:
    make_place(tmp_path, 3, 2, "exp", with_rollouts=1)
    for node in range(2):
        (tmp_path / "experiments" / "exp" / keys.starts(f"worker-{node}")).unlink()
    with opened(browser, tmp_path) as seen:
        rows = seen.show("settings").locator("section:has-text('In short') tr").all_text_contents()
    assert rows[1:4] == [
        "modeltiny-2-qwen2",
        "learning rate (learning_rate)not recorded",
        "own groups per round, I (local_groups)4",
    ]


def test_answers_that_were_cleaned_up_are_said_to_be_and_the_node_stays_chosen(seen: Seen) -> None:
    page = seen.show("answers/5/0/worker-2")
    page.wait_for_selector(f".empty:has-text('Answers before round {ROUNDS - 3} were cleaned up')")
    assert page.locator(f".control:has-text('Round ({ROUNDS - 3} to {ROUNDS - 1} are kept)')").count() == 1
    assert page.input_value("label:has-text('Published by') select") == "worker-2"
    page.click(".empty a")
    page.wait_for_selector("[role=status]:has-text('worker-2, ')")
    assert page.url.endswith(f"answers/{ROUNDS - 3}/0/worker-2")
    assert page.locator("button[aria-label='Round before']").is_disabled()
    page = seen.show("answers/4/0/worker-1")
    page.wait_for_selector(".empty a")
    page.fill("input[name=round]", str(ROUNDS - 2))
    page.press("input[name=round]", "Enter")
    page.wait_for_selector("[role=status]:has-text('worker-1, ')")


def test_tiles_and_charts_say_the_same_in_the_same_unit_and_rounds_are_counted_alike(seen: Seen) -> None:
    page = seen.show("overview")
    page.wait_for_selector("canvas >> nth=2")
    share = page.text_content(".card:nth-child(2) .value")
    assert re.fullmatch(r"\d+ %", share)
    assert "have a readable <answer>" in page.text_content(".card:nth-child(2)")
    readout = page.text_content("figure:has-text('Format and knowledge') .readout")
    assert re.search(r"format \d+ % · knowledge 0\.\d{3}$", readout)
    assert f"{ROUNDS} of {2 * ROUNDS} rounds done, 0 to {ROUNDS - 1} (50 %)" in page.text_content("#clock")
    page = seen.show("nodes")
    page.wait_for_selector("figure:has-text('Own and external groups') .readout:has-text('I own 4 ·')")


def test_the_matrix_says_who_learned_most_and_whose_groups_nobody_took(seen: Seen) -> None:
    page = seen.show("sharing")
    page.wait_for_selector("table")
    said = page.text_content(".lead")
    assert re.match(r"worker-\d learned most from one other: \d+ groups of worker-\d\. ", said)
    assert "Nobody trained on groups of worker-3 (not believed: others found its claims to be false)." in said
    rows = page.locator("tbody tr").all()[:NODES]
    heats = [float(of.evaluate("of => of.style.getPropertyValue('--heat')")) for of in page.locator(".heat").all()]
    assert max(heats) == 1
    assert min(heat for heat in heats if heat) < 0.2
    for row in rows:
        counts = [int(text) for text in row.locator(".heat").all_text_contents()]
        assert {int(text) for text in row.locator(".most").all_text_contents()} == {max(counts)}


def test_on_a_phone_the_tabs_have_no_bar_figures_are_on_the_screen_and_names_are_whole(
    browser: Any, place: Path
) -> None:
    for width in (1280, 390):
        with opened(browser, place, width) as seen:
            page = seen.show("overview/took")
            assert page.evaluate("getComputedStyle(document.querySelector('nav ul')).overflowY") == "hidden"
            bar = page.evaluate("getComputedStyle(document.querySelector('nav ul')).scrollbarWidth")
            assert bar == ("none" if width == 390 else "thin")
            assert page.evaluate("getComputedStyle(document.documentElement).scrollbarGutter") == "stable"
            page.wait_for_selector("tr:has-text('tokens trained on')")
            for figure in page.locator(".labels td").all():
                box = figure.bounding_box()
                assert box["x"] + box["width"] <= width
            page = seen.show("health")
            page.wait_for_selector("a.name")
            lines = page.evaluate(
                "[...document.querySelectorAll('a.name')].map((name) => name.getClientRects().length)"
            )
            assert {*lines} == {1}


def adopted_in(place: Path, round_: int) -> tuple[str, str]:
    """A node that published in a round, and one that trained on it in the same round, so that the next is there."""
    look = a_look(place)
    look.refresh(1.7e9)
    groups = [(f"worker-{node}", group) for node in range(NODES) for group in read(look, round_, node)]
    return next((node, of["node"]) for node, group in groups for of in group["adopters"] if of["round"] == round_)


def read(look: WebLook, round_: int, node: int) -> list[dict[str, Any]]:
    groups: list[dict[str, Any]] = look.answers(RoundKey(round_), f"worker-{node}")["groups"]
    return groups


def test_what_a_stranger_wrote_stays_text(seen: Seen) -> None:
    page = seen.show(f"answers/{ROUNDS - 1}/0/worker-0")
    page.wait_for_selector("article.group >> nth=3")
    assert HOSTILE in page.locator(".completion pre").all_text_contents()
    assert page.locator("main img, main script").count() == 0
    assert page.title() != "obeyed"


def test_the_log_is_filtered_by_level_node_name_and_words(seen: Seen) -> None:
    page = seen.show("log")
    page.wait_for_selector(".journal li >> nth=100")
    page.wait_for_selector("[role=status]:has-text('The last 300 events')")
    page.fill("input[name=event]", "rollouts.*")
    page.wait_for_selector(".journal:not(:has-text('round.completed')) li")
    page.select_option("label:has-text('Node') select", "worker-1")
    page.wait_for_selector(f"[role=status]:has-text('All {ROUNDS} events')")
    page.select_option("label:has-text('Node') select", "")
    page.wait_for_selector(".journal li >> nth=100")
    assert {*page.locator(".journal .what").all_text_contents()} == {"rollouts.published"}
    page.fill("input[name=contains]", "worker-2")
    assert {*page.locator(".journal .who").all_text_contents()} == {"worker-2"}
    page.fill("input[name=contains]", "")
    page.select_option("label:has-text('Level') select", "error")
    page.wait_for_selector("[role=status]:has-text('No event matches')")


def test_who_lies_and_who_is_late_stand_in_the_health_of_the_run(seen: Seen) -> None:
    page = seen.show("health")
    page.wait_for_selector(".hint >> nth=0")
    assert "worker-3: others found" in " ".join(page.locator(".hint").all_text_contents())
    suspects = page.locator("section:has-text('not believed') table")
    assert {"worker-0", "worker-3"} <= {*suspects.locator("a").all_text_contents()}, "who it is, and who says so"
    assert page.locator("section:has-text('not believed'):has-text('as it claims them')").count() == 1
    assert page.locator("section:has-text('Who is slow') table").count() == 0, "of five nodes none is"
    page = seen.show(f"answers/{ROUNDS - 1}/0/worker-3")
    page.wait_for_selector(".hint:has-text('of this node to be false'):has-text('as it claims them')")


def test_the_page_is_used_without_a_mouse(seen: Seen) -> None:
    page = seen.show("overview")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.id") == "skip"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "content"
    page.locator("nav a >> nth=3").focus()
    page.keyboard.press("Enter")
    page.wait_for_selector("body[data-ready='exp/sharing']")
    page.wait_for_selector("table")


def faults(page: Any) -> list[str]:
    """What axe finds serious or worse."""
    page.evaluate(AXE.read_text("utf-8"))
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [
        f"{fault['id']}: {[of['html'][:120] for of in fault['nodes'][:3]]}"
        for fault in found["violations"]
        if fault["impact"] in ("serious", "critical")
    ]


@pytest.mark.parametrize(("scheme", "width"), [("light", 390), ("dark", 1280)])
def test_axe_finds_no_serious_fault_and_nothing_is_wider_than_the_window(
    browser: Any, place: Path, scheme: str, width: int
) -> None:
    with opened(browser, place, width, color_scheme=scheme, bypass_csp=True) as seen:
        for view in VIEWS:
            page = seen.show(view)
            page.wait_for_load_state()
            assert faults(page) == [], view
            assert page.evaluate("document.documentElement.scrollWidth") <= width, view


@pytest.fixture
def frozen(browser: Any, place: Path, tmp_path: Path) -> Iterator[Seen]:
    """The page as a file, opened from the disk."""
    look = a_look(place)
    look.refresh(1.7e9)
    file = tmp_path / "out.html"
    file.write_bytes(frozen_page("exp", look, place_document(open_place(place), place), 1.7e9))
    with closing(browser.new_context(viewport={"width": 1280, "height": 900})) as context:
        seen = Seen(context)
        seen.page.goto(file.as_uri())
        seen.page.wait_for_selector("body[data-ready]")
        yield seen


def test_the_frozen_page_opens_from_disk_and_asks_for_nothing(frozen: Seen) -> None:
    seen, page = frozen, frozen.page
    page.wait_for_selector("canvas >> nth=2")
    assert min(painted(page)) > 1000
    assert page.text_content("#live") == "frozen copy"
    for view in VIEWS:
        seen.show(view)
    seen.show("answers")
    page.wait_for_selector("article.group >> nth=3")
    assert HOSTILE in page.locator(".completion pre").all_text_contents()
    seen.show("log")
    page.fill("input[name=event]", "rollouts.*")
    page.wait_for_selector(".journal:not(:has-text('round.completed')) li")
    assert page.title() != "obeyed"
    assert {url for url in seen.asked if not url.startswith(("file:", "data:", "blob:"))} == set()
    assert {url.split("#")[0] for url in seen.asked if url.startswith("file:")} == {page.url.split("#")[0]}
    assert seen.wrong == []
