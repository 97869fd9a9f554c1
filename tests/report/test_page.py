"""The page in a real Chromium: what it shows, how it filters, that it is inert and asks nobody for anything."""

from __future__ import annotations

import json
import random
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_elo.gates.results import GateResult
from pytest_elo.report.build import build_from
from pytest_elo.report.page import page
from tests.gates.runs import HEADER, rows_of

HOSTILE = (
    "</script><script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">"
    "<style>*{display:none}</style>\u2028<!--<script> &amp; \ud800 https://example.com/beacon.png"
)
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


def report(n: int = 40, outputs: str = HOSTILE, strategies: tuple[str, ...] = ("baseline", "r3", "r5", "best")):
    rng = random.Random(2)
    scores = {
        (task, name): [float(rng.random() < 0.4 + 0.15 * place) for _ in range(n)]
        for task in ("sums", "words")
        for place, name in enumerate(strategies)
    }
    header = {"ladders": [["baseline", "r3", "r5"]], "strategies": {}}
    made_attempts, made_outcomes = rows_of(scores, marks={"best": ["oracle"]})
    outcomes = []
    for outcome in made_outcomes:
        said = {"output": outputs + str(rng.random()), "answer": "<b>x</b>", "expected": "y"}
        outcomes.append(outcome if outcome.score == 1 else replace(outcome, **said))
    attempts = []
    for number, row in enumerate(made_attempts):
        spent = {"baseline": 100, "r3": 320, "r5": 540, "best": 900}.get(row.strategy, 100) + rng.randrange(60)
        kept = row.strategy == "baseline" or number % 9 > 0
        attempts.append(replace(row, total_tokens=spent, total_tokens_high=spent, kept=kept, finish_reason="stop"))
    gate = GateResult(gate="r3 score >= 0.9", answer="fail", found="0.5 <over> 40 items", worse=("sums/i001 (1 -> 0)",))
    texts = {row.call_id: f"said by a sample: {HOSTILE}" for row in attempts}
    return replace(build_from({**HEADER, **header}, attempts, outcomes, (), {}), gates=(gate,), texts=texts)


@pytest.fixture(scope="module")
def text():
    return page(report())


def test_the_same_report_gives_the_same_bytes(text):
    assert page(report()) == text


def test_nothing_outside_is_named_and_the_size_is_bounded():
    text = page(report(1250, "word " * 600))
    assert text.count('"sums"') >= 1
    assert len(text.encode()) < 1_500_000
    assert "http://" not in text.replace("http://www.w3.org/", "")
    assert "https://" not in text
    data = _data(text)
    assert len(data["outcomes"]) == 10_000
    failed = sum(data["statuses"][row[3]] != "correct" for row in data["outcomes"])
    assert len(data["cases"]) + data["cases_left_out"] == failed


def test_outputs_are_cut_to_fit_and_say_how_long_they_were():
    data = _data(page(report(100, "word " * 4000)))
    cases = [case for case in data["cases"].values() if "output" in case]
    assert cases
    assert all(len(case["output"]) == data["output_limit"] < 20_000 < case["cut"] for case in cases)


def _data(text: str) -> dict:
    start = text.index('id="data">') + len('id="data">')
    return json.loads(text[start : text.index("</script>", start)])


def test_without_matplotlib_the_page_says_what_is_missing(monkeypatch):
    monkeypatch.setattr("pytest_elo.report.plots.draw.has_library", lambda: False)
    monkeypatch.setattr("pytest_elo.report.page.build.has_library", lambda: False)
    text = page(report())
    assert "<svg" not in text
    assert "pip install &#x27;pytest-elo[report]&#x27;" in text
    assert "Strategies over all tasks" in text


@pytest.fixture(scope="module")
def browser(tmp_path_factory, text):
    if CHROMIUM is None or shutil.which("chromedriver") is None:
        pytest.skip("no Chromium with its driver on this machine")
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--window-size=1600,1000"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(shutil.which("chromedriver")))
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(text, encoding="utf-8")
    driver.get(path.as_uri())
    yield driver
    driver.quit()


def find(browser, selector: str):
    return browser.find_elements("css selector", selector)


def set_value(browser, element_id: str, value: str) -> None:
    browser.execute_script(
        "const e = document.getElementById(arguments[0]); e.value = arguments[1];"
        "e.dispatchEvent(new Event(e.tagName === 'INPUT' ? 'input' : 'change'));",
        element_id,
        value,
    )


def test_the_page_is_whole_silent_and_asks_nobody(browser):
    assert browser.title == "Elo per token: sums, words"
    assert len(find(browser, "table.numbers")) >= 2
    assert [figure.get_attribute("id") for figure in find(browser, "figure")] == [
        "plot-elo",
        "plot-tasks",
        "plot-marginals",
        "plot-spent",
    ]
    assert find(browser, ".gate.fail")[0].text.startswith("FAIL r3 score >= 0.9")
    assert browser.get_log("browser") == []
    messages = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    asked = {m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"}
    assert {address.split(":")[0] for address in asked} <= {"file", "data"}


def test_the_plots_name_their_strategies_and_follow_the_theme(browser):
    plot = find(browser, "#plot-elo svg")[0]
    words = plot.text.split()
    assert {"baseline", "r3", "r5", "best"} <= set(words)
    axis = "return getComputedStyle(document.querySelector('#plot-elo svg text')).fill"
    light = browser.execute_script(axis)
    browser.execute_cdp_cmd(
        "Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": "dark"}]}
    )
    dark = browser.execute_script(axis)
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
    assert _brightness(light) < 130 < _brightness(dark)


def _brightness(colour: str) -> float:
    return sum(map(int, colour.strip("rgb()").split(","))) / 3


def test_items_can_be_filtered_searched_and_ordered(browser):
    rows = "#map tbody tr"
    assert len(find(browser, rows)) == 80
    set_value(browser, "task", "1")
    assert len(find(browser, rows)) == 40
    set_value(browser, "find", "i007")
    (row,) = find(browser, rows)
    assert row.text.startswith("words/i007")
    assert browser.find_element("id", "shown").text == "1 of 80 items, 320 outcomes"
    set_value(browser, "find", "")
    set_value(browser, "task", "")
    set_value(browser, "order", "score")
    scores = [
        sum(cell.text == "✓" for cell in row.find_elements("css selector", "td")) for row in find(browser, rows)[:80:20]
    ]
    assert scores == sorted(scores)
    set_value(browser, "order", "name")


def test_a_failed_case_is_read_by_keyboard_and_stays_text(browser):
    from selenium.webdriver.common.keys import Keys

    failed = find(browser, "#map td button.s0")[0]
    failed.send_keys(Keys.ENTER)
    assert browser.find_element("id", "reader").get_attribute("open")
    assert browser.find_element("css selector", "#reader pre").text.startswith(
        "</script><script>document.title='owned'"
    )
    assert "<b>x</b>" in browser.find_element("id", "reader-body").text
    sample = browser.find_element("css selector", "#reader details")
    sample.find_element("css selector", "summary").send_keys(Keys.ENTER)
    assert sample.find_element("css selector", "pre").text.startswith("said by a sample: </script><script>")
    assert find(browser, "#reader img, #reader style, #reader b") == []
    assert browser.title == "Elo per token: sums, words"
    before = browser.find_element("id", "reader-head").text
    browser.switch_to.active_element.send_keys(Keys.ARROW_RIGHT)
    assert browser.find_element("id", "reader-head").text != before
    browser.switch_to.active_element.send_keys(Keys.ESCAPE)
    assert not browser.find_element("id", "reader").get_attribute("open")
    first = find(browser, "#map tbody tr:first-child td button")[0]
    first.send_keys(Keys.ARROW_DOWN)
    assert browser.switch_to.active_element.get_attribute("aria-label").startswith("sums/i001, baseline")
    assert browser.get_log("browser") == []


@pytest.mark.parametrize("width", [400, 1600])
def test_nothing_is_wider_than_the_window(browser, width):
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride", {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    )
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_the_plot_as_png(tmp_path):
    from pytest_elo.report.plots.draw import write_png

    target = tmp_path / "elo.png"
    write_png(report(), target)
    assert target.read_bytes().startswith(b"\x89PNG")
    assert Path(target).stat().st_size > 20_000
