"""The numbers of a run as OpenMetrics text, which GitLab shows beside a merge request."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_elo.report.build import Report

__all__ = ["metrics"]


def metrics(report: Report) -> str:
    """OpenMetrics text: what GitLab shows beside a merge request (``artifacts:reports:metrics``)."""
    return "".join(f"{name}{{{where}}} {value:.10g}\n" for name, where, value in _samples(report))


def _samples(report: Report) -> Iterator[tuple[str, str, float]]:
    if report.rating is None:
        return
    for policy in report.rating.policies:
        where = f'strategy="{_label(policy.policy)}"'
        for name, value in (
            ("elo_score", policy.score),
            ("elo_delta", policy.delta.value),
            ("elo_tokens_per_item", policy.tokens_per_item),
            ("elo_per_1k_tokens", policy.elo_per_1k.value),
        ):
            if value is not None:
                yield name, where, value


def _label(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
