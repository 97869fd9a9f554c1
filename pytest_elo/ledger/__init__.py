"""The ledger: append, journal, recover, read and total attempts (no network, no pytest)."""
