"""Measurements that a reader can repeat."""
