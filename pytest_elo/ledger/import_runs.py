"""Import other people's logs: call-level and outcome-level CSV become an ordinary run directory.

A mapping file (YAML) says which rows are which strategy of which task and what the columns are called::

    columns: {item_id: task_id, repeat: run, score: solved, latency_s: inference_s}
    anchor: baseline
    groups:
      - where: {strategy: simple, model: gpt-4-0613}
        task: gpt-4
        strategy: baseline
      - where: {strategy: ldb, model: gpt-4-0613+gpt-4-0613}
        task: gpt-4
        strategy: LDB
        add: {strategy: simple, model: gpt-4-0613}
        because: the log leaves out the first generation

``add`` charges the calls of another group's rows, same item and repeat, to this strategy as well: a part
of the denominator that the log lacks. Rows that no group names are counted and reported, never guessed.
"""

from __future__ import annotations

import csv
import gzip
import io
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pytest_elo._parse import parse_yaml
from pytest_elo._text import did_you_mean, shorten
from pytest_elo.errors import DataError
from pytest_elo.ledger.read import TOKENS_AT_MOST
from pytest_elo.ledger.rundir import RunDir
from pytest_elo.records import Attempt, Outcome

__all__ = ["Group", "ImportMapping", "Mapped", "import_runs", "read_mapping"]

ROLES = {
    "item_id": "item_id",
    "repeat": "repeat",
    "score": "score",
    "prompt_tokens": "prompt_tokens",
    "completion_tokens": "completion_tokens",
    "latency_s": "latency_s",
    "model": "model",
}
OPTIONAL = {"repeat", "latency_s", "model"}


@dataclass(frozen=True, slots=True)
class Group:
    """Rows that are one strategy of one task."""

    where: Mapping[str, str]
    task: str
    strategy: str
    add: Mapping[str, str] | None = None
    because: str = ""


@dataclass(frozen=True, slots=True)
class ImportMapping:
    groups: Sequence[Group]
    columns: Mapping[str, str] = field(default_factory=lambda: dict(ROLES))
    anchor: str = "baseline"
    ladders: Sequence[Sequence[str]] = ()


@dataclass(slots=True)
class Mapped:
    """What an import made, and what it has to say about it."""

    attempts: list[Attempt] = field(default_factory=list)
    outcomes: list[Outcome] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def import_runs(calls: Path, outcomes: Path, mapping: Path, target: Path) -> Mapped:
    """Read both CSV files (``.gz`` too) under the mapping and write a run directory.

    Raises ``DataError`` naming file and line for unreadable rows.
    """
    plan = read_mapping(mapping)
    mapped = Mapped()
    outcome_rows = _grouped(outcomes, plan, "score", mapped)
    call_rows = _grouped(calls, plan, "prompt_tokens", mapped)
    for group in plan.groups:
        _add_group(group, plan, call_rows, outcome_rows, mapped)
    run = RunDir(target)
    target.mkdir(parents=True, exist_ok=True)
    run.write_rows(mapped.attempts, mapped.outcomes)
    run.write_header(
        {
            "v": 1,
            "mode": "import",
            "answers": f"imported from {calls.name} and {outcomes.name}, not run here",
            "model": "",
            "host": "",
            "anchor": plan.anchor,
            "ladders": [list(ladder) for ladder in plan.ladders],
            "notes": mapped.notes,
        }
    )
    return mapped


def read_mapping(path: Path) -> ImportMapping:
    """Read the mapping file; raises ``DataError`` naming the key."""
    try:
        document = parse_yaml(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: cannot be read as YAML: {error}") from None
    if not isinstance(document, dict) or not isinstance(document.get("groups"), list):
        raise DataError(f"{path}: needs 'groups', a list of {{where, task, strategy}}")
    for key in document:
        if key not in ("groups", "columns", "anchor", "ladders"):
            raise DataError(
                f"{path}: unknown key {key!r}{did_you_mean(str(key), ('groups', 'columns', 'anchor', 'ladders'))}"
            )
    columns = _texts(document.get("columns") or {}, f"{path}: columns")
    for role in columns:
        if role not in ROLES:
            raise DataError(f"{path}: columns: unknown column {role!r}{did_you_mean(str(role), ROLES)}")
    groups = [_group(body, f"{path}: groups[{index}]") for index, body in enumerate(document["groups"])]
    ladders = document.get("ladders") or ()
    if not isinstance(ladders, list | tuple) or not all(isinstance(ladder, list) for ladder in ladders):
        raise DataError(f"{path}: ladders: a list of lists of strategies is expected")
    anchor = _text(document.get("anchor", "baseline"), f"{path}: anchor")
    named = [[_text(name, f"{path}: ladders[{i}]") for name in ladder] for i, ladder in enumerate(ladders)]
    return ImportMapping(groups, ROLES | columns, anchor, named)


def _group(body: Any, where: str) -> Group:
    fields = set(Group.__dataclass_fields__)
    if not isinstance(body, dict) or not {"where", "task", "strategy"} <= body.keys():
        raise DataError(f"{where}: needs where, task and strategy")
    for key in body:
        if key not in fields:
            raise DataError(f"{where}: unknown key {key!r}{did_you_mean(str(key), fields)}")
    return Group(
        where=_texts(body["where"], f"{where}: where"),
        task=_text(body["task"], f"{where}: task"),
        strategy=_text(body["strategy"], f"{where}: strategy"),
        add=_texts(body["add"], f"{where}: add") if body.get("add") else None,
        because=_text(body.get("because") or "", f"{where}: because"),
    )


def _text(value: object, where: str) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise DataError(f"{where} is {shorten(repr(value), 60)}; a text is expected")
    return str(value)


def _texts(value: object, where: str) -> dict[str, str]:
    if not isinstance(value, dict) or not value.keys() <= {key for key in value if isinstance(key, str)}:
        raise DataError(f"{where}: a mapping of names to texts is expected")
    return {key: _text(inner, f"{where}: {key}") for key, inner in value.items()}


Rows = dict[tuple[tuple[str, str], ...], dict[tuple[str, str], list[tuple[int, Mapping[str, str]]]]]


def _grouped(path: Path, plan: ImportMapping, needed: str, mapped: Mapped) -> Rows:
    """Rows by the selector they match, then by (item, repeat)."""
    selectors = {tuple(sorted(group.where.items())) for group in plan.groups}
    selectors |= {tuple(sorted(group.add.items())) for group in plan.groups if group.add}
    rows: Rows = {selector: defaultdict(list) for selector in selectors}
    unmatched = 0
    for line, row in _read_csv(path, plan, needed):
        hits = [selector for selector in selectors if all(row.get(key) == value for key, value in selector)]
        unmatched += not hits
        for selector in hits:
            rows[selector][row[plan.columns["item_id"]], row.get(plan.columns["repeat"], "0")].append((line, row))
    if unmatched:
        mapped.notes.append(f"{path.name}: {unmatched} rows belong to no group of the mapping and were not imported")
    return rows


def _read_csv(path: Path, plan: ImportMapping, needed: str) -> Iterator[tuple[int, Mapping[str, str]]]:
    try:
        raw = path.read_bytes()
        text = (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode("utf-8-sig")
    except (OSError, EOFError, UnicodeDecodeError, zlib.error) as error:
        raise DataError(f"{path}: cannot be read ({error})") from None
    try:
        yield from _rows(path, csv.DictReader(io.StringIO(text, newline="")), plan, needed)
    except csv.Error as error:
        raise DataError(f"{path}: not CSV ({error})") from None


def _rows(
    path: Path, reader: csv.DictReader[str], plan: ImportMapping, needed: str
) -> Iterator[tuple[int, Mapping[str, str]]]:
    wanted = {plan.columns["item_id"], plan.columns[needed], *(key for group in plan.groups for key in group.where)}
    missing = sorted(wanted - set(reader.fieldnames or ()))
    if missing:
        raise DataError(f"{path}: no column {', '.join(missing)}; name it under 'columns' of the mapping")
    for row in reader:
        if None in row or None in row.values():
            raise DataError(f"{path}, line {reader.line_num}: {len(reader.fieldnames or ())} columns are expected")
        yield reader.line_num, row


def _add_group(group: Group, plan: ImportMapping, calls: Rows, outcomes: Rows, mapped: Mapped) -> None:
    own = calls[tuple(sorted(group.where.items()))]
    results = outcomes[tuple(sorted(group.where.items()))]
    if not results:
        mapped.notes.append(f"{group.task}/{group.strategy}: no outcome matches {dict(group.where)}")
        return
    repeats = {name: index for index, name in enumerate(sorted({repeat for _, repeat in results}))}
    extra = calls[tuple(sorted(group.add.items()))] if group.add else {}
    without_calls = without_extra = 0
    for (item, repeat), rows in sorted(results.items()):
        if len(rows) > 1:
            raise DataError(f"outcomes, line {rows[1][0]}: a second outcome of {group.strategy}, {item}, {repeat}")
        _, row = rows[0]
        charged = own.get((item, repeat), [])
        added = extra.get((item, repeat), [])
        without_calls += not charged and not added
        without_extra += group.add is not None and not added
        base = Attempt(
            ts="",
            task_id=group.task,
            strategy=group.strategy,
            model=row.get(plan.columns["model"], ""),
            call_id="",
            item_id=item,
            repeat=repeats[repeat],
            kept=True,
            status="ok",
            source="import",
        )
        attempts = list(_attempts(base, [*added, *charged], plan, len(added)))
        mapped.attempts.extend(attempts)
        score = _number(row, plan.columns["score"], rows[0][0])
        if score > 1:
            raise DataError(f"outcomes, line {rows[0][0]}: {plan.columns['score']} is {score}; a score is 0 to 1")
        mapped.outcomes.append(
            Outcome(
                task_id=group.task,
                item_id=item,
                strategy=group.strategy,
                model=base.model,
                repeat=repeats[repeat],
                status="correct" if score == 1 else "wrong" if score == 0 else "partial",
                score=score,
                call_ids=tuple(attempt.call_id for attempt in attempts),
            )
        )
    _say(group, len(results), without_calls, without_extra, mapped)


def _say(group: Group, n: int, without_calls: int, without_extra: int, mapped: Mapped) -> None:
    name = f"{group.task}/{group.strategy}"
    if group.add:
        named = ", ".join(f"{key} {value}" for key, value in group.add.items())
        because = f" ({group.because})" if group.because else ""
        mapped.notes.append(f"{name}: the calls of {named}, same item and repeat, are charged too{because}")
        if without_extra:
            mapped.notes.append(f"{name}: for {without_extra} of {n} outcomes that part is not in the log either")
    if without_calls:
        mapped.notes.append(
            f"{name}: {without_calls} of {n} outcomes have no call in the log, so a part of the denominator is missing"
        )


def _attempts(
    base: Attempt, rows: Iterable[tuple[int, Mapping[str, str]]], plan: ImportMapping, n_added: int
) -> Iterator[Attempt]:
    for index, (line, row) in enumerate(rows):
        prompt = int(_number(row, plan.columns["prompt_tokens"], line))
        completion = int(_number(row, plan.columns["completion_tokens"], line))
        column = plan.columns["latency_s"]
        latency = _number(row, column, line) if row.get(column) else 0.0
        yield replace(
            base,
            ts=f"{index:06d}",
            call_id=f"{base.task_id}/{base.strategy}/{base.item_id}/{base.repeat}/{index}",
            sample=index,
            role="generate" if index < n_added or n_added == 0 else "reflect",
            prompt_tokens=prompt,
            completion_tokens=completion,
            total_tokens=prompt + completion,
            total_tokens_high=prompt + completion,
            latency_s=latency,
        )


def _number(row: Mapping[str, str], column: str, line: int) -> float:
    try:
        number = float(row[column])
    except (KeyError, TypeError, ValueError):
        number = -1.0
    if not 0 <= number <= TOKENS_AT_MOST:
        raise DataError(f"line {line}: {column} is {row.get(column)!r}, not a number of at least 0")
    return number
