"""Plots of a report, drawn by matplotlib (the extra ``report``) as SVG that follows the page's theme."""
