"""Log events as lines for a person: what a long-running command has to say beside its output."""

from __future__ import annotations

from collections.abc import Callable

from twisted.logger import ILogObserver, LogEvent, LogLevel, formatEvent, globalLogPublisher
from zope.interface import provider


def print_log(complain: Callable[[str], None], least: LogLevel = LogLevel.info) -> None:
    """Give events of ``logd`` from level ``least`` on to ``complain``, each as one line, until the process ends."""

    @provider(ILogObserver)
    def observe(event: LogEvent) -> None:
        level = event.get("log_level")
        if level is not None and level >= least and str(event.get("log_namespace", "")).startswith("logd."):
            complain(formatEvent(event))

    globalLogPublisher.addObserver(observe)
