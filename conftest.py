"""For this repository's own tests: pytester runs whole sessions with the plugin inside."""

pytest_plugins = ["pytester"]
