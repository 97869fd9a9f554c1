"""Strategies: async functions that spend test-time compute over a metered ``ask``."""
