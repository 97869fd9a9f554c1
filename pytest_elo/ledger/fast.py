"""Blocks of ledger lines to columns with ``msgspec`` (extra ``fast``), which reads a row in a microsecond."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Annotated, Any, Literal

from pytest_elo.ledger.read import TOKENS_AT_MOST
from pytest_elo.ledger.sums import COLUMNS, Columns
from pytest_elo.records import Role

__all__ = ["decoder"]

NAMED = ("task_id", "strategy", "model")
"""Fields with few values, over and over: a decoder that knows these makes no text of them, it finds one."""
NAMES_AT_MOST = 256
"""Of one field; where there are more, none are learnt."""

DEFAULTS: dict[str, tuple[Any]] = {
    "model": ("",), "ts": ("",), "role": ("generate",), "status": ("ok",), "latency_s": (0.0,),
    **dict.fromkeys(("prompt_tokens", "completion_tokens", "total_tokens_high", "attempt", "repeat", "sample"), (0,)),
    **dict.fromkeys(("estimated", "response_model", "cached_tokens", "kept"), (None,)),
}  # fmt: skip
"""Of fields that a row may lack, as ``attempt_of`` fills them in."""

Decode = Callable[[bytes], Columns | None]


@lru_cache(maxsize=1)
def decoder() -> Decode | None:
    """What turns a block of lines into columns, or into ``None`` where a line is not plainly one of ours.

    ``None`` itself where ``msgspec`` is not installed.
    """
    try:
        return _Decoder()
    except ImportError:
        return None


class _Decoder:
    def __init__(self) -> None:
        import msgspec

        self._errors = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
        self._values = msgspec.structs.astuple
        self._names: dict[str, set[str]] = {field: set() for field in NAMED}
        self._any_name = _lines_of({})
        self._known_names: Callable[[bytes], list[Any]] | None = None

    def __call__(self, block: bytes) -> Columns | None:
        rows = self._rows(block)
        if not rows or len(rows) != block.count(b"\n"):
            return None  # an empty line, or two rows on one, which msgspec takes and JSON does not
        *columns, asked = zip(*map(self._values, rows), strict=True)
        if asked.count(None) == len(asked):
            return (*columns, asked)
        return (*columns, [None if parameters is None else parameters.temperature for parameters in asked])

    def _rows(self, block: bytes) -> Sequence[Any] | None:
        if self._known_names is not None:
            try:
                return self._known_names(block)
            except self._errors:
                pass  # a name that is new, most likely; else the other decoder says so again
        try:
            rows = self._any_name(block)
        except self._errors:
            return None
        if self._names:
            self._learn(rows)
        return rows

    def _learn(self, rows: Sequence[Any]) -> None:
        for field, known in self._names.items():
            known.update(getattr(row, field) for row in rows)
        if any(len(known) > NAMES_AT_MOST for known in self._names.values()):
            self._names, self._known_names = {}, None
        elif rows:
            self._known_names = _lines_of(self._names)


def _lines_of(names: dict[str, set[str]]) -> Callable[[bytes], list[Any]]:
    """``msgspec``'s decoder of lines into what the sums need; of the fields in ``names``, these values only."""
    import msgspec

    tokens = Annotated[int, msgspec.Meta(ge=0, le=TOKENS_AT_MOST)]
    count = Annotated[int, msgspec.Meta(ge=0, le=1 << 31)]
    types: dict[str, Any] = {
        **dict.fromkeys(("task_id", "item_id", "strategy", "model", "ts"), str),
        **dict.fromkeys(("prompt_tokens", "completion_tokens", "total_tokens", "total_tokens_high"), tokens),
        **dict.fromkeys(("attempt", "repeat", "sample"), count),
        **dict.fromkeys(("estimated", "response_model"), str | None),
        "cached_tokens": tokens | None,
        "latency_s": Annotated[float, msgspec.Meta(ge=0, le=1e9)],
        "role": Role,
        "status": Literal["ok", "error", "open"],
        "kept": bool | None,
        **{field: Literal[tuple(sorted(known))] for field, known in names.items()},
    }
    asked = msgspec.defstruct("Asked", [("temperature", float | None, None)], gc=False)
    fields: list[Any] = [(name, types[name], *DEFAULTS.get(name, ())) for name in COLUMNS[:-1]]
    fields.append(("parameters", asked, None))
    row = msgspec.defstruct("Row", fields, kw_only=True, gc=False)
    return msgspec.json.Decoder(row).decode_lines
