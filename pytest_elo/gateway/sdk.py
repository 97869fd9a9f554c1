"""Our errors as the OpenAI SDK's own, so that they reach its users unchanged and are caught as they know.

The SDK wraps what a transport raises into "Connection error." and may repeat it, except for its own
exceptions: those pass. Each class here is both.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from pytest_elo.errors import GatewayError, NotRecordedError

__all__ = ["sdk_error"]


@cache
def _error_types() -> dict[str, Any]:
    import openai

    def both(name: str, ours: type[GatewayError], theirs: type[Exception]) -> Any:
        return type(name, (ours, theirs), {"__init__": Exception.__init__, "__module__": __name__})

    return {
        "timeout": both("GatewayTimeoutError", GatewayError, openai.APITimeoutError),
        "connection": both("GatewayConnectionError", GatewayError, openai.APIConnectionError),
        "not_recorded": both("NotRecordedAPIError", NotRecordedError, openai.OpenAIError),
        "other": both("GatewayAPIError", GatewayError, openai.APIError),
    }


def sdk_error(error: GatewayError, request: Any) -> GatewayError:
    """``error`` as an exception that is also the SDK's of the same meaning."""
    types = _error_types()
    if isinstance(error, NotRecordedError):
        chosen = types["not_recorded"]
    elif error.kind == "timeout":
        chosen = types["timeout"]
    else:
        chosen = types["connection" if error.kind in ("connect", "reset") else "other"]
    both: Any = chosen(str(error))
    both.kind, both.status = error.kind, error.status
    both.message, both.request, both.body = str(error), request, None
    both.code, both.param, both.type = error.kind, None, None
    assert isinstance(both, GatewayError)
    return both
