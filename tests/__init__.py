"""Tests, laid out as the tree that they test."""

import signal

from hypothesis import HealthCheck, settings

# The duration of an example depends on the machine more than on the code: a busy machine must fail no test.
settings.register_profile("unhurried", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("unhurried")

# A shell starts background jobs with SIGINT ignored, and nohup ignores SIGHUP. The processes that tests start would
# inherit that: neither Ctrl-C nor the end of a terminal would end them. A signal with a handler is back at its default
# in a new program.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, lambda *_: None)
