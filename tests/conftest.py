"""Settings of the whole suite: no test depends on how busy the machine is."""

from hypothesis import settings

settings.register_profile("suite", deadline=None)
settings.load_profile("suite")
