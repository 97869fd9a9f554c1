"""From an issue to a patch: what the model is shown, and how its reply becomes a diff."""
