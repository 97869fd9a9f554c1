"""The voting page: people compare answers in a browser, on loopback, offline."""
