"""Settings of the whole suite: no test depends on how busy the machine is, or on who started it."""

import signal

from hypothesis import settings

settings.register_profile("suite", deadline=None)
settings.load_profile("suite")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A CI that starts its job in the background ignores Ctrl-C, and so would every process of these tests.
    signal.signal(signal.SIGINT, signal.default_int_handler)
