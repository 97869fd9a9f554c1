"""The voting page in a real Chromium: keys, undo, progress, and answers that try to do something."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_elo.votes.page.ballots import Ballot, write_ballots
from pytest_elo.votes.page.server import VotingServer
from pytest_elo.votes.store import read_votes

HOW = "a browser is needed: pip install selenium, and Chromium with its driver (Debian: chromium-driver)"
webdriver = pytest.importorskip("selenium.webdriver", reason=HOW)
BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
DRIVER = shutil.which("chromedriver")
pytestmark = pytest.mark.skipif(not (BROWSER and DRIVER), reason=HOW)

LEFT, UP, RIGHT, DOWN = "\ue012", "\ue013", "\ue014", "\ue015"
FLAGS = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
    "--window-size=1280,860",
]

ATTACK = """<script>document.title = 'owned'</script>
<img src="https://example.org/pixel.png" onerror="document.title='owned'">
[leave](https://example.org/) ![image](https://example.org/pixel.png)
<a href="https://example.org/" id="leave">leave</a> <style>body { display: none }</style>
<iframe src="https://example.org/"></iframe>"""


def ballots() -> list[Ballot]:
    markdown = "## Plan\n\n1. **First**\n2. Second\n\n```python\nif a < b:\n    print(1)\n```"
    answers = [(ATTACK, "A harmless answer."), (markdown, "Plain words."), ("short", "a longer answer")]
    return [
        Ballot(task_id="arena", item_id=f"p{n}", prompt=f"Prompt **{n}**", a="alpha", b="beta", answer_a=a, answer_b=b)
        for n, (a, b) in enumerate(answers)
    ]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    os.environ["SE_OFFLINE"] = "true"  # the driver is given; nothing is looked up or fetched
    options = webdriver.ChromeOptions()
    options.binary_location = BROWSER
    for flag in FLAGS:
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    driver.implicitly_wait(5)
    yield driver
    driver.quit()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[VotingServer]:
    write_ballots(tmp_path, ballots())
    with VotingServer(tmp_path) as running:
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield running
        running.shutdown()
        thread.join()


class Page:
    def __init__(self, browser: Any, server: VotingServer) -> None:
        self.browser = browser
        self.server = server

    def open(self, voter: str = "") -> None:
        self.browser.get("about:blank")
        self.browser.get(self.server.url + (f"#{voter}" if voter else ""))

    def element(self, css: str) -> Any:
        return self.browser.find_element("css selector", css)

    def press(self, key: str) -> None:
        self.element("body").send_keys(key)

    def wait(self, css: str, text: str) -> None:
        from selenium.webdriver.support.ui import WebDriverWait

        WebDriverWait(self.browser, 10).until(lambda _: text in self.element(css).text)

    def requested(self) -> set[str]:
        import json

        events = [json.loads(entry["message"])["message"] for entry in self.browser.get_log("performance")]
        return {event["params"]["request"]["url"] for event in events if event["method"] == "Network.requestWillBeSent"}


@pytest.fixture
def page(browser: Any, server: VotingServer) -> Page:
    browser.get_log("performance")
    browser.get_log("browser")
    return Page(browser, server)


def test_arrow_keys_vote_and_undo_takes_back(page: Page, tmp_path: Path) -> None:
    page.open()
    page.element("#voter").send_keys("Ann Ö\n")
    page.wait("#count", "0 of 3")
    for done, key in enumerate((LEFT, UP, DOWN), start=1):
        page.press(key)
        page.wait("#count", f"{done} of 3")
    assert page.element("#end").is_displayed()
    page.press("u")
    page.wait("#count", "2 of 3")
    assert page.element("#ballot").is_displayed()
    page.press(RIGHT)
    page.wait("#end", "All pairs are done")
    votes = read_votes(tmp_path / "votes.jsonl").votes
    assert [vote.winner for vote in votes] == ["a", "tie", "both_bad", None, "b"]
    assert {vote.judge for vote in votes} == {"Ann Ö"}


def test_buttons_do_what_keys_do_and_a_reload_goes_on(page: Page, tmp_path: Path) -> None:
    page.open("bob")
    page.wait("#count", "0 of 3")
    page.element("[data-choice=right]").click()
    page.wait("#count", "1 of 3")
    page.browser.refresh()
    page.wait("#count", "1 of 3")
    page.element("#undo").click()
    page.wait("#count", "0 of 3")
    assert not page.element("#undo").is_enabled()


def test_an_answer_with_script_images_and_links_does_nothing(page: Page) -> None:
    page.open("eve")
    for done in range(3):
        page.wait("#count", f"{done} of 3")
        if "pixel.png" in page.element("#answers").text:
            break
        page.press(UP)
    assert "<script>" in page.element("#answers").text  # shown as the text it is
    active = "script, img, a, iframe, style, [onerror], [src], [href]"
    page.browser.implicitly_wait(0)
    assert page.browser.find_elements("css selector", ", ".join(f".card {tag}" for tag in active.split(", "))) == []
    page.browser.implicitly_wait(5)
    assert page.browser.title == "Which answer is better?"
    assert all(url.startswith((page.server.url, "about:")) for url in page.requested())
    assert [entry for entry in page.browser.get_log("browser") if entry["level"] == "SEVERE"] == []


def test_the_policy_stops_a_script_that_got_in_anyway(page: Page) -> None:
    """The second lock, tried by hand: markup with a handler, put into the page behind the renderer's back."""
    page.open("joe")
    page.wait("#count", "0 of 3")
    page.browser.execute_script(
        "document.getElementById('left').innerHTML = "
        "\"<img src=x onerror=\\\"document.title='owned'\\\"><iframe src='https://example.org'></iframe>\""
    )
    page.browser.execute_async_script("setTimeout(arguments[0], 300)")
    assert page.browser.title == "Which answer is better?"
    assert any("Content Security Policy" in entry["message"] for entry in page.browser.get_log("browser"))


def test_a_lost_server_is_said_and_nothing_is_counted(page: Page, tmp_path: Path) -> None:
    page.open("sue")
    page.wait("#count", "0 of 3")
    page.browser.execute_script("window.fetch = () => Promise.reject(new TypeError('gone'))")
    page.press(LEFT)
    page.wait("#problem", "The last vote was not counted")
    assert page.element("#count").text == "0 of 3"
    assert not (tmp_path / "votes.jsonl").exists()
