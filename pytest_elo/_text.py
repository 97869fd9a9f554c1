"""Small words about words: suggestions for misspelt names, ids that are safe everywhere, short excerpts."""

from __future__ import annotations

import difflib
import hashlib
import re
from collections.abc import Iterable
from pathlib import Path

__all__ = ["did_you_mean", "printable", "safe_id", "shorten", "text_hash", "usable"]

_LIST_AT_MOST = 12
_SAFE_ID = re.compile(r"[A-Za-z0-9_.-]{1,80}")
_UNSAFE_RUN = re.compile(r"[^A-Za-z0-9_.-]+")
_DIGEST_SUFFIX = re.compile(r".*\.[0-9a-f]{12}")


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """``"; did you mean 'numeric'?"`` for the closest known word; when none is close, a short list of all."""
    choices = sorted(set(known))
    by_lower_case = {choice.lower(): choice for choice in choices}
    close = difflib.get_close_matches(word.lower(), by_lower_case, n=1)
    if close:
        return f"; did you mean {by_lower_case[close[0]]!r}?"
    return f"; known: {', '.join(choices)}" if 0 < len(choices) <= _LIST_AT_MOST else ""


def printable(text: str) -> str:
    """``text`` without what steers a terminal: control and invisible characters other than line breaks are shown."""
    if text.isprintable():
        return text
    return "".join(sign if sign.isprintable() or sign == "\n" else "\N{REPLACEMENT CHARACTER}" for sign in text)


def usable(path: Path) -> Path:
    """``path`` itself. Raises ``ValueError`` for what no file can be called, whether or not there is one.

    That is a NUL, half a character, a loop of links, a name that is too long; pathlib's own questions (``is_file``,
    ``resolve``) raise for some of these in some Pythons.
    """
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        pass
    except OSError as error:
        raise ValueError(error.strerror) from None
    return path


def safe_id(raw: str) -> str:
    """An ASCII id for node ids, file names and ``-k``: ``raw`` itself when it is made of ``A-Za-z0-9_.-``.

    Otherwise unsafe runs become ``_`` and twelve hex digits of the SHA-256 of ``raw`` follow, so that
    different ids stay different. A raw id that already ends like that is hashed too, which keeps the
    two kinds apart.
    """
    if _SAFE_ID.fullmatch(raw) and not _DIGEST_SUFFIX.fullmatch(raw):
        return raw
    stem = _UNSAFE_RUN.sub("_", raw)[:48].strip("_")
    digest = text_hash(raw).hexdigest()[:12]
    return f"{stem}.{digest}"


def text_hash(text: str) -> hashlib._Hash:
    """The hash of the text in UTF-8, also where it holds half a character, as JSON of a model's reply may."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass"))


def shorten(text: str, width: int = 120) -> str:
    """``text`` on one line of at most ``width`` characters; an ellipsis shows that something was cut."""
    line = " ".join(text.split())
    return line if len(line) <= width else line[: width - 1] + "…"
