"""GPQA-format questions: one correct and three incorrect options a row, lettered in a reproducible order.

The official ``gpqa_diamond.csv`` reads unchanged. Its authors ask that questions are not published, so no
text of a question or option appears in errors, warnings or ``repr``: ids, lines and letters only.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import permutations
from pathlib import Path
from typing import Final

from pytest_elo._text import did_you_mean, safe_id, text_hash
from pytest_elo.errors import ConfigError, DataError
from pytest_elo.records import Grade, Message, Reply
from pytest_elo.tasks.csv_index import CsvIndex, Row, scan
from pytest_elo.tasks.parsing import LETTERS, PARSERS, PARSING_VERSION, unanswered

__all__ = ["GpqaTask", "Question", "key_letters", "load", "option_order"]

OPTION_COLUMNS: Final = ("Correct Answer", "Incorrect Answer 1", "Incorrect Answer 2", "Incorrect Answer 3")
ID_COLUMN: Final = "Record ID"
REQUIRED_COLUMNS: Final = ("Question", *OPTION_COLUMNS, ID_COLUMN)
OPTIONAL_COLUMNS: Final = ("Subdomain", "High-level domain", "Canary String")

OFFICIAL_ROWS: Final[Mapping[str, int]] = {"diamond": 198, "main": 448, "extended": 546}

INSTRUCTION: Final = (
    "Answer the multiple-choice question. Think briefly, then finish with a last line of the form "
    "ANSWER: X, where X is one of A, B, C, D."
)
# One worked example makes small models write the ANSWER line. (question, options, reply)
EXAMPLES: Final = (
    (
        "A pump lifts 30 kg of water through 4 m in 6 s. Taking g = 10 m/s^2, what is its useful power?",
        ("50 W", "120 W", "200 W", "7200 W"),
        "The work is m g h = 30 * 10 * 4 = 1200 J. The power is 1200 J / 6 s = 200 W, which is option C.\nANSWER: C",
    ),
)

_ORDERS: Final = tuple(permutations(range(4)))


def option_order(record_id: str, repeat: int, seed: int) -> tuple[int, int, int, int]:
    """Which option (0 = the correct one, 1-3 = incorrect ones) stands at A, B, C, D.

    A pure function of its arguments: neither the position in the file nor a selection of items matters.
    Four consecutive repeats rotate one order, so that the key stands at every letter once.
    """
    turn, block = repeat % 4, repeat // 4
    digest = text_hash(f"{seed}\0{block}\0{record_id}").digest()
    order = _ORDERS[int.from_bytes(digest, "big") % len(_ORDERS)]
    a, b, c, d = order[turn:] + order[:turn]
    return a, b, c, d


def key_letters(record_ids: Iterable[str], *, repeat: int = 0, seed: int = 0) -> Counter[str]:
    """How often the key stands at each letter."""
    return Counter(LETTERS[option_order(record_id, repeat, seed).index(0)] for record_id in record_ids)


def _posed(question: str, options: Sequence[str]) -> str:
    lettered = "\n".join(f"{letter}) {option}" for letter, option in zip(LETTERS, options, strict=True))
    return f"{question}\n\n{lettered}"


def _messages(question: str, options: Sequence[str], few_shot: int) -> tuple[Message, ...]:
    messages: list[Message] = [{"role": "system", "content": INSTRUCTION}]
    for example, example_options, reply in EXAMPLES[:few_shot]:
        messages.append({"role": "user", "content": _posed(example, example_options)})
        messages.append({"role": "assistant", "content": reply})
    messages.append({"role": "user", "content": _posed(question, options)})
    return tuple(messages)


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One row as posed in one repeat (a ``Problem``)."""

    task_id: str
    item_id: str
    repeat: int
    order: tuple[int, int, int, int]
    """Which option stands at each letter; 0 is the correct one."""
    options: tuple[str, ...] = field(repr=False)
    """Texts in the order posed."""
    messages: tuple[Message, ...] = field(repr=False)
    max_tokens: int
    parser: str
    domain: str = ""
    subdomain: str = ""

    @property
    def keys(self) -> str:
        """The accepted letters: the correct option's, and that of any option with the very same text."""
        correct = self.options[self.order.index(0)]
        return "".join(letter for letter, option in zip(LETTERS, self.options, strict=True) if option == correct)

    @property
    def grading_rules(self) -> list[str | int]:
        """What decides the score besides the reply, as JSON."""
        return [self.keys, self.parser, PARSING_VERSION]

    def answer_key(self, reply: Reply) -> Hashable | None:
        """The letter chosen; letters of options with the same text are one answer."""
        letter = PARSERS[self.parser](reply.text)
        return None if letter is None else LETTERS[self.options.index(self.options[LETTERS.index(letter)])]

    def grade(self, reply: Reply) -> Grade:
        """A letter in the text decides, even if the reply was cut; else the status says why."""
        letters = {name: read(reply.text) for name, read in PARSERS.items()}
        scores = {name: float(letter is not None and letter in self.keys) for name, letter in letters.items()}
        letter = letters[self.parser]
        answered = "correct" if scores[self.parser] else "wrong"
        return Grade(
            status=answered if letter is not None else unanswered(reply),
            score=scores[self.parser],
            answer=letter,
            expected="/".join(self.keys),
            scores=scores,
            detail=_reading(letters, self.parser),
        )


def _reading(letters: Mapping[str, str | None], parser: str) -> str | None:
    """What the other parser read where the two differ."""
    other = "lenient" if parser == "strict" else "strict"
    if letters[other] == letters[parser]:
        return None
    return f"the {other} parser reads {letters[other] or 'no letter'}"


@dataclass(frozen=True, slots=True, kw_only=True)
class GpqaTask:
    """The questions of one file (a ``Task``). Rows are read from the file when they are posed."""

    task_id: str
    fingerprint: str
    item_ids: Sequence[str] = field(repr=False)
    warnings: Sequence[str]
    seed: int
    parser: str
    few_shot: int
    max_tokens: int
    _index: CsvIndex = field(repr=False)
    _row_of: Mapping[str, int] = field(repr=False)

    @property
    def distinct_ids(self) -> Sequence[str]:
        """Strategies tell no question from another, so the first stands for all."""
        return self.item_ids[:1]

    def pose(self, item_id: str, repeat: int) -> Question:
        """The item in one repeat. Raises ``DataError`` for an unknown id or a file changed since."""
        if item_id not in self._row_of:
            raise DataError(f"{self._index.path}: no item {item_id!r}")
        row = self._index.row(self._row_of[item_id])
        order = option_order(_record_id(row), repeat, self.seed)
        texts = _options(row)
        options = tuple(texts[i] for i in order)
        return Question(
            task_id=self.task_id,
            item_id=item_id,
            repeat=repeat,
            order=order,
            options=options,
            messages=_messages(row.cells["Question"].strip(), options, self.few_shot),
            max_tokens=self.max_tokens,
            parser=self.parser,
            domain=row.cells.get("High-level domain", "").strip(),
            subdomain=row.cells.get("Subdomain", "").strip(),
        )


def load(
    path: str | Path,
    *,
    task_id: str = "gpqa",
    seed: int = 0,
    parser: str = "strict",
    few_shot: int = 1,
    max_tokens: int = 2048,
) -> GpqaTask:
    """The questions of a GPQA-format CSV file.

    ``seed`` fixes the option order, ``parser`` (``strict`` or ``lenient``) which reading of a reply counts,
    ``few_shot`` the worked examples in the prompt (0 or 1), ``max_tokens`` the cap of one completion.

    Raises ``ConfigError`` for a setting out of range and ``DataError`` (one line, never question text) for
    a file that is missing, empty, not UTF-8 or not CSV, lacks columns, has a row lacking a question or an
    option, or names a record twice.
    """
    if parser not in PARSERS:
        raise ConfigError(f"task {task_id!r}: unknown parser {parser!r}{did_you_mean(parser, PARSERS)}")
    if not 0 <= few_shot <= len(EXAMPLES):
        raise ConfigError(f"task {task_id!r}: few_shot is {few_shot}; use a number from 0 to {len(EXAMPLES)}")
    if max_tokens < 1:
        raise ConfigError(f"task {task_id!r}: max_tokens is {max_tokens}; use at least 1")

    index, rows = scan(Path(path), required=REQUIRED_COLUMNS, optional=OPTIONAL_COLUMNS)
    survey = _Survey(index.path)
    survey.read(rows)
    rules = {
        "messages": _messages("", [""] * 4, few_shot),
        "parser": parser,
        "parsing": PARSING_VERSION,
        "seed": seed,
        "max_tokens": max_tokens,
    }
    survey.digest.update(json.dumps(rules, sort_keys=True).encode())
    return GpqaTask(
        task_id=task_id,
        fingerprint=survey.digest.hexdigest(),
        item_ids=tuple(survey.row_of),
        warnings=survey.warnings(seed),
        seed=seed,
        parser=parser,
        few_shot=few_shot,
        max_tokens=max_tokens,
        _index=index,
        _row_of=survey.row_of,
    )


def _record_id(row: Row) -> str:
    return row.cells[ID_COLUMN].strip()


def _options(row: Row) -> tuple[str, ...]:
    """The options, the correct one first, stripped at the ends only."""
    return tuple(row.cells[column].strip() for column in OPTION_COLUMNS)


class _Survey:
    """The one pass over all rows: checks each, hashes what is posed, notes what deserves a warning."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.digest = hashlib.sha256()
        self.row_of: dict[str, int] = {}
        self.record_ids: list[str] = []
        self._line_of: dict[str, int] = {}
        self._doubled_keys: list[str] = []
        self._has_canary = False

    def read(self, rows: Iterator[Row]) -> None:
        for i, row in enumerate(rows):
            self._check(row)
            record_id, options = _record_id(row), _options(row)
            self.row_of[self._unique_id(row)] = i
            self.record_ids.append(record_id)
            posed = [record_id, row.cells["Question"].strip(), *options]
            self.digest.update(json.dumps(posed).encode() + b"\n")
            if options[0] in options[1:]:
                self._doubled_keys.append(record_id)
            self._has_canary = self._has_canary or bool(row.cells.get("Canary String"))
        if not self.row_of:
            raise DataError(f"{self.path}: has a header but no rows; add at least one question")

    def _check(self, row: Row) -> None:
        record_id = _record_id(row)
        if not record_id:
            raise DataError(f"{self.path}:{row.line}: no {ID_COLUMN}; give every row an id of its own")
        empty = [name for name in ("Question", *OPTION_COLUMNS) if not row.cells[name].strip()]
        if empty:
            unnamed = ", ".join(map(repr, empty))
            raise DataError(
                f"{self.path}:{row.line}: record {safe_id(record_id)} has no {unnamed}; "
                "every row needs a question, its correct answer and three incorrect ones"
            )

    def _unique_id(self, row: Row) -> str:
        item_id = safe_id(_record_id(row))
        first = self._line_of.setdefault(item_id, row.line)
        if first != row.line:
            raise DataError(
                f"{self.path}:{row.line}: record {item_id} stands on line {first} already; "
                "give every row an id of its own"
            )
        return item_id

    def warnings(self, seed: int) -> tuple[str, ...]:
        found = (self._doubled_key_warning(), self._count_warning(), self._letter_warning(seed))
        return tuple(f"{self.path}: {warning}" for warning in found if warning)

    def _doubled_key_warning(self) -> str:
        ids = self._doubled_keys
        if not ids:
            return ""
        shown = ", ".join(map(safe_id, ids[:5])) + (", ..." if len(ids) > 5 else "")
        return f"{len(ids)} rows have an incorrect answer equal to the correct one ({shown}); both letters count"

    def _count_warning(self) -> str:
        """Some copies of the official sets lost rows (197 of 198, 543 of 546)."""
        n, name = len(self.row_of), self.path.stem.lower()
        official = ", ".join(f"{name} {rows}" for name, rows in OFFICIAL_ROWS.items())
        claimed = next((rows for part, rows in OFFICIAL_ROWS.items() if "gpqa" in name and part in name), None)
        if (claimed is None and not self._has_canary) or n == claimed:
            return ""
        if claimed is None and n in OFFICIAL_ROWS.values():
            return ""
        return f"looks like an official GPQA set but has {n} rows ({official}); is it a damaged copy or a part?"

    def _letter_warning(self, seed: int) -> str:
        """Models favour letters: a key that stands mostly at one of them biases the score."""
        n = len(self.record_ids)
        letters = key_letters(self.record_ids, seed=seed)
        if n < 100 or all(0.15 <= letters[letter] / n <= 0.35 for letter in LETTERS):
            return ""
        counts = ", ".join(f"{letter} {letters[letter]}" for letter in LETTERS)
        return f"with seed {seed} the keys stand unevenly ({counts} of {n}); use another seed"
