"""Tests, laid out as the tree that they test."""

import os
import signal

from hypothesis import HealthCheck, settings

# The duration of an example depends on the machine more than on the code: a busy machine must fail no test.
settings.register_profile("unhurried", deadline=None, suppress_health_check=[HealthCheck.too_slow])
# The same examples in each run, so that a run fails for what was changed; LOGD_NEW_EXAMPLES=1 looks for others.
settings.register_profile("repeatable", settings.get_profile("unhurried"), derandomize=True)
settings.load_profile("unhurried" if os.environ.get("LOGD_NEW_EXAMPLES") else "repeatable")

# A shell starts background jobs with SIGINT ignored, and nohup ignores SIGHUP. The processes that tests start would
# inherit that: neither Ctrl-C nor the end of a terminal would end them. A signal with a handler is back at its default
# in a new program.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, lambda *_: None)
