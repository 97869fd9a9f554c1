from __future__ import annotations

from html.parser import HTMLParser

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_elo.votes.page.markdown import TAGS, render
from tests.hang import ends

VOID = {"br", "hr"}


class Checker(HTMLParser):
    """Fails on any tag outside the closed set, any attribute, any tag that does not nest."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in TAGS
        assert attrs == []
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data

    def handle_comment(self, data: str) -> None:
        raise AssertionError(data)

    handle_decl = handle_pi = unknown_decl = handle_comment


def checked(text: str) -> str:
    html = render(text)
    checker = Checker()
    checker.feed(html)
    checker.close()
    assert checker.open == []
    return html


MARKED = st.text(alphabet="ab <>&\"'`*_[]()!#>-|~1.\n\t\\=:/", max_size=200)


@settings(deadline=None)
@given(st.one_of(MARKED, st.text(max_size=200)))
def test_any_text_gives_nested_tags_of_the_closed_set_without_attributes(text: str) -> None:
    checked(text)


@settings(deadline=None)
@given(st.text(alphabet=st.characters(categories=("L", "N")), min_size=1, max_size=60))
def test_plain_words_come_back(text: str) -> None:
    assert render(text) == f"<p>{text}</p>"


@pytest.mark.parametrize(
    "attack",
    [
        "<script>alert(1)</script>",
        "<img src=x onerror=alert(1)>",
        "[click](javascript:alert(1))",
        "![x](https://example.org/pixel.png)",
        "<a href='https://example.org'>here</a>",
        "```html\n<script>alert(1)</script>\n```",
        "`<b onclick=x>`",
        "<https://example.org>",
        "| <script> | b |\n|---|---|\n| <iframe> | c |",
        "# <svg onload=x>",
        "&lt;script&gt;",
        "<!-- -->",
    ],
)
def test_nothing_in_an_answer_becomes_active(attack: str) -> None:
    html = checked(attack)
    assert not any(tag in html for tag in ("<script", "<img", "<a ", "<iframe", "<svg", "<!--"))


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("one\ntwo", "<p>one<br>two</p>"),
        ("# Big", "<h3>Big</h3>"),
        ("**bold** and *it* and `a<b`", "<p><strong>bold</strong> and <em>it</em> and <code>a&lt;b</code></p>"),
        ("snake_case_name 2*3*4", "<p>snake_case_name 2*3*4</p>"),
        ("- a\n- b", "<ul><li>a</li><li>b</li></ul>"),
        ("1. a\n   - x\n2. b", "<ol><li>a<ul><li>x</li></ul></li><li>b</li></ol>"),
        ("```py\nx = 1 < 2\n```", "<pre><code>x = 1 &lt; 2</code></pre>"),
        ("```\nunclosed", "<pre><code>unclosed</code></pre>"),
        ("> wise", "<blockquote><p>wise</p></blockquote>"),
        ("[docs](https://a.b/c)", "<p>docs (https://a.b/c)</p>"),
        (
            "| a | b |\n|---|:-:|\n| 1 | 2 |",
            "<table><thead><tr><th>a</th><th>b</th></tr></thead><tbody><tr><td>1</td><td>2</td></tr></tbody></table>",
        ),
        ("---", "<hr>"),
    ],
)
def test_the_subset(text: str, html: str) -> None:
    assert checked(text) == html


@pytest.mark.parametrize("part", ["`", "*", "**a ", "[", "_a ", "> ", "- ", "#", "| ", "``a`", "[a](", "~"])
def test_time_is_linear_in_the_length(part: str) -> None:
    text = part * (60_000 // len(part))
    with ends():
        checked(text)
        checked("\n".join([part * 20] * 500))
