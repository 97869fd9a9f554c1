"""The page of a run: one HTML file with everything inside, no network, nothing of the run executable."""

from pytest_elo.report.page.build import page

__all__ = ["page"]
