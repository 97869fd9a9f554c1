"""Markdown of a model's answer as HTML that can do nothing.

A small subset: headings, lists, quotes, tables, fenced code, bold, italics, code spans. Everything else,
HTML above all, is shown as the text it is. The tags written are those of :data:`TAGS` and never carry an
attribute; links and images become text, so that nothing can be followed, fetched or run.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import escape

__all__ = ["TAGS", "render"]

_BLOCK_TAGS = ("p", "br", "hr", "h3", "h4", "h5", "ul", "ol", "li", "blockquote", "pre")
_INLINE_TAGS = ("code", "strong", "em")
_TABLE_TAGS = ("table", "thead", "tbody", "tr", "th", "td")
TAGS = frozenset((*_BLOCK_TAGS, *_INLINE_TAGS, *_TABLE_TAGS))

# Repetitions of anything that may fail late are bounded: time stays linear in the length of the text.
_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})[^`]*$")
_HEADING = re.compile(r"^ {0,3}(#{1,6})[ \t]+(\S.*)$")
_RULE = re.compile(r"^ {0,3}(?:-[ \t]*){3,}$|^ {0,3}(?:\*[ \t]*){3,}$|^ {0,3}(?:_[ \t]*){3,}$")
_ITEM = re.compile(r"^([ \t]*)([-*+]|\d{1,9}[.)])[ \t]+(.*)$")
_QUOTE = re.compile(r"^ {0,3}>[ \t]?(.*)$")
_TABLE_LINE = re.compile(r"^[ \t]*\|.*\|[ \t]*$")
_CODE_SPAN = re.compile(r"(?<!`)(`{1,9})(?!`)(.{1,500}?)(?<!`)\1(?!`)")
_LINK = re.compile(r"(!?)\[([^\[\]\n]{0,500})\]\(([^()\s]{1,2000})(?:[ \t]+[^()\n]{0,200})?\)")
_STRONG = re.compile(r"\*\*(?=\S)(.{1,500}?)(?<=\S)\*\*|__(?=\S)(.{1,500}?)(?<=\S)__")
_EMPHASIS = re.compile(
    r"(?<![\w*])\*(?=[^\s*])([^*\n<]{1,500}?)(?<=\S)\*(?![\w*])|(?<!\w)_(?=\S)([^_\n<]{1,500}?)(?<=\S)_(?!\w)"
)
_DEEPEST = 6
"""Quotes and lists nested deeper than this are shown as plain lines."""


def render(text: str) -> str:
    """HTML of ``text``. Total: any text gives well-formed HTML of :data:`TAGS` without attributes."""
    return "\n".join(_blocks(text.replace("\r\n", "\n").replace("\r", "\n").split("\n"), 0))


def _blocks(lines: list[str], depth: int) -> Iterator[str]:
    at = 0
    while at < len(lines):
        line = lines[at]
        if not line.strip():
            at += 1
        elif fence := _FENCE.match(line):
            end = _fence_end(lines, at, fence[1])
            yield f"<pre><code>{escape(chr(10).join(lines[at + 1 : end]))}</code></pre>"
            at = end + 1
        elif heading := _HEADING.match(line):
            level = min(max(len(heading[1]) + 2, 3), 5)
            words = heading[2].rstrip(" \t#")
            yield f"<h{level}>{_inline(words)}</h{level}>"
            at += 1
        elif _RULE.match(line):
            yield "<hr>"
            at += 1
        elif depth < _DEEPEST and _QUOTE.match(line):
            end = _run(lines, at, _QUOTE)
            inner = [match[1] for match in map(_QUOTE.match, lines[at:end]) if match]
            yield f"<blockquote>{''.join(_blocks(inner, depth + 1))}</blockquote>"
            at = end
        elif depth < _DEEPEST and _ITEM.match(line):
            end = _list_end(lines, at)
            yield _list(lines[at:end], depth)
            at = end
        elif _TABLE_LINE.match(line) and _is_table_rule(lines[at + 1 : at + 2]):
            end = _run(lines, at, _TABLE_LINE)
            yield _table(lines[at : max(end, at + 2)])
            at = max(end, at + 2)
        else:
            end = _paragraph_end(lines, at)
            yield f"<p>{'<br>'.join(_inline(part.strip()) for part in lines[at:end])}</p>"
            at = end


def _is_table_rule(lines: list[str]) -> bool:
    return bool(lines) and "-" in lines[0] and set(lines[0]) <= set(" \t|:-")


def _fence_end(lines: list[str], start: int, fence: str) -> int:
    for at in range(start + 1, len(lines)):
        stripped = lines[at].strip()
        if len(stripped) >= len(fence) and set(stripped) == {fence[0]}:
            return at
    return len(lines)


def _run(lines: list[str], start: int, pattern: re.Pattern[str]) -> int:
    end = start
    while end < len(lines) and pattern.match(lines[end]):
        end += 1
    return end


def _paragraph_end(lines: list[str], start: int) -> int:
    end = start + 1
    while end < len(lines) and lines[end].strip() and not _starts_block(lines[end]):
        end += 1
    return end


def _starts_block(line: str) -> bool:
    return any(pattern.match(line) for pattern in (_FENCE, _HEADING, _RULE, _QUOTE, _ITEM, _TABLE_LINE))


def _list_end(lines: list[str], start: int) -> int:
    """A list goes on over indented lines, and over one blank line where it goes on after it."""
    end = start
    while end < len(lines):
        line = lines[end]
        if line.strip():
            if not (_ITEM.match(line) or line[0] in " \t") or _RULE.match(line):
                break
        elif end + 1 >= len(lines) or not (_ITEM.match(lines[end + 1]) or lines[end + 1][:2].isspace()):
            break
        end += 1
    return end


def _list(lines: list[str], depth: int) -> str:
    first = _ITEM.match(lines[0])
    assert first is not None
    margin, tag = len(first[1].expandtabs()), "ol" if first[2][0].isdigit() else "ul"
    items: list[list[str]] = []
    for line in lines:
        item = _ITEM.match(line)
        if item and len(item[1].expandtabs()) <= margin:
            items.append([item[3]])
        else:
            items[-1].append(_unindented(line, margin + 2))
    return f"<{tag}>{''.join(f'<li>{_item(item, depth)}</li>' for item in items)}</{tag}>"


def _unindented(line: str, width: int) -> str:
    return line[min(width, len(line) - len(line.lstrip())) :]


def _item(lines: list[str], depth: int) -> str:
    """An item's own words without a paragraph around them, then its blocks."""
    rest = lines[1:]
    return _inline(lines[0]) + "".join(_blocks(rest, depth + 1))


def _table(lines: list[str]) -> str:
    head, *body = [
        [cell.strip() for cell in line.strip().strip("|").split("|")] for i, line in enumerate(lines) if i != 1
    ]
    header = "".join(f"<th>{_inline(cell)}</th>" for cell in head)
    rows = "".join(f"<tr>{''.join(f'<td>{_inline(cell)}</td>' for cell in row)}</tr>" for row in body)
    return f"<table><thead><tr>{header}</tr></thead><tbody>{rows}</tbody></table>"


def _inline(text: str) -> str:
    """Code spans are cut out first: nothing in them is Markdown."""
    parts: list[str] = []
    at = 0
    for span in _CODE_SPAN.finditer(text):
        parts += [_words(text[at : span.start()]), f"<code>{escape(span[2].strip())}</code>"]
        at = span.end()
    return "".join([*parts, _words(text[at:])])


def _words(text: str) -> str:
    safe = escape(_LINK.sub(_as_text, text), quote=False)
    safe = _STRONG.sub(lambda match: f"<strong>{match[1] or match[2]}</strong>", safe)
    # No "<" inside: emphasis that begins in a strong part and ends outside would not nest.
    return _EMPHASIS.sub(lambda match: f"<em>{match[1] or match[2]}</em>", safe)


def _as_text(link: re.Match[str]) -> str:
    kind = "image " if link[1] else ""
    return f"{kind}{link[2]} ({link[3]})" if link[2] else f"{kind}({link[3]})"
