"""Paths that are forwarded, and how each API says no."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["Route", "error_body", "route_of", "upstream_url"]

_POSTED = {
    "/chat/completions": "chat",
    "/responses": "responses",
    "/messages": "messages",
    "/messages/count_tokens": "count_tokens",
    "/completions": "completions",
    "/embeddings": "embeddings",
}
_ANTHROPIC = frozenset({"messages", "count_tokens"})

_TYPES_OPENAI = {401: "authentication_error", 402: "insufficient_quota", 403: "permission_error"}
_TYPES_ANTHROPIC = {
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
}


@dataclass(frozen=True, slots=True)
class Route:
    """Where a request goes: the API (as the ledger's readers know it) and the path after the base URL."""

    api: str
    path: str

    @property
    def is_anthropic(self) -> bool:
        return self.api in _ANTHROPIC


def route_of(method: str, path: str) -> Route | None:
    """The route of a path such as ``/v1/messages``; ``None`` for what is not forwarded.

    Only what can be metered is: a batch or a stored response would be bought past the ledger.
    """
    bare = path.rstrip("/")
    while bare.startswith("/v1/"):
        bare = bare[3:]
    if method == "POST" and bare in _POSTED:
        return Route(_POSTED[bare], bare)
    if method == "GET" and (bare == "/models" or bare.startswith("/models/")):
        return Route("other", bare)
    return None


def upstream_url(base_url: str, route: Route, query: str) -> str:
    """The gateway's address of a route. Anthropic's paths have their ``/v1`` whether or not the base URL ends in it."""
    base = base_url.removesuffix("/v1") + "/v1" if route.is_anthropic else base_url
    return f"{base}{route.path}" + (f"?{query}" if query else "")


def error_body(status: int, message: str, *, code: str, anthropic: bool) -> bytes:
    """An error as the API's own clients expect it."""
    error: Mapping[str, object]
    if anthropic:
        kind = _TYPES_ANTHROPIC.get(status, "invalid_request_error" if status < 500 else "api_error")
        error = {"type": "error", "error": {"type": kind, "message": message}}
    else:
        kind = _TYPES_OPENAI.get(status, "invalid_request_error" if status < 500 else "server_error")
        error = {"error": {"message": message, "type": kind, "param": None, "code": code}}
    return json.dumps(error).encode()
