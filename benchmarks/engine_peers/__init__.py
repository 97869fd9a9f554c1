"""Side by side with others; see README.md."""
