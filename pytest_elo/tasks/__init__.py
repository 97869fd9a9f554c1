"""Tasks: load items, pose problems, grade replies."""
