"""The broker as a Twisted service: what is opened at the start, and what happens in which order at the end."""

from __future__ import annotations

import signal
import sys
from typing import Any

from twisted.application.service import Service
from twisted.internet.defer import Deferred
from twisted.internet.endpoints import serverFromString
from twisted.internet.interfaces import IListeningPort
from twisted.internet.task import LoopingCall, deferLater
from twisted.logger import Logger
from twisted.python.failure import Failure

from logd.broker.broker import Broker
from logd.broker.topics import LocalTopics
from logd.config import BrokerSettings, parse_address
from logd.errors import ConfigurationError, LogdError
from logd.log.files import LocalFiles
from logd.log.flusher import Flusher
from logd.log.store import LogStore
from logd.net.server import ConnectionFactory, ConnectionLimits
from logd.net.threads import DiskThreads
from logd.net.transfer import SendfileSender

#: Seconds between two looks whether the last answers have left, while stopping.
STOP_POLL_SECONDS = 0.02


class BrokerService(Service):
    """Everything that a broker is, in one process. ``makeService`` only makes it; it runs after twistd's fork."""

    log = Logger()

    def __init__(self, reactor: Any, settings: BrokerSettings, foreground: bool = False) -> None:
        """``foreground``: a failure to start is for a person at a terminal, who is better off without a traceback."""
        self._reactor = reactor
        self._settings = settings
        self._foreground = foreground
        self._port: IListeningPort | None = None
        self._http: IListeningPort | None = None
        self._loops: list[LoopingCall] = []
        self.broker: Broker | None = None

    def startService(self) -> None:  # noqa: N802
        """Lock and open the data directory, recover, listen: all of it before returning, so that a failure is seen.

        Raises DataDirectoryError, or ConfigurationError when an endpoint cannot be listened on.
        """
        try:
            self._start()
        except LogdError as error:
            if self._foreground:
                sys.tracebacklimit = 0
            self.log.critical("cannot start: {error}", error=str(error))
            raise
        super().startService()
        # Twisted ends a process that was told to terminate with the signal's status; a clean stop deserves a 0.
        self._reactor.callWhenRunning(self._catch_terminate)
