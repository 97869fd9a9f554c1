"""pytest-elo: which way of spending test-time compute is worth its tokens."""
