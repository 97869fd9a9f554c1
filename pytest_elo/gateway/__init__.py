"""The gateway: the metered client, attempts and retries, recordings, the embedded model."""
