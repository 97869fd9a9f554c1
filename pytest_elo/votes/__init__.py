"""Votes: who preferred which answer, told by models or people; kept, imported, checked for bias, rated."""
