"""The form that a value from elsewhere must have: small tests, put together to larger ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["Form", "each", "flag", "known", "listed", "mapping", "maybe", "number", "text", "whole", "with_all"]

Form = Callable[[Any], bool]


def text(value: Any) -> bool:
    return isinstance(value, str)


def flag(value: Any) -> bool:
    return isinstance(value, bool)


def whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 62


def number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e18


def mapping(value: Any) -> bool:
    return isinstance(value, dict)


def maybe(form: Form) -> Form:
    return lambda value: value is None or form(value)


def listed(form: Form) -> Form:
    return lambda value: isinstance(value, list) and all(map(form, value))


def each(form: Form) -> Form:
    """A mapping whose values all have this form."""
    return lambda value: isinstance(value, dict) and all(map(form, value.values()))


def known(**forms: Form) -> Form:
    """A mapping that may have these, and others of any form."""

    def has_form(value: Any) -> bool:
        if not isinstance(value, dict):
            return False
        for key in value:  # a loop: this is asked of every recorded row
            form = forms.get(key)
            if form is not None and not form(value[key]):
                return False
        return True

    return has_form


def with_all(**forms: Form) -> Form:
    """A mapping that has all of these, and others of any form."""
    has_form = known(**forms)
    return lambda value: has_form(value) and forms.keys() <= value.keys()
