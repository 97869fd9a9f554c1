"""The local runner's parts: repositories, environments, prepared trees, and runs in a sandbox."""
