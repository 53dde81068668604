"""The process of a broker for tests: ``python -m logd.testing.kafka_brokers.child SETTINGS``.

It takes commands, an object of JSON on each line of its standard input, and answers each by a line; the first line says
where it serves. It stops when its standard input ends, and so with the process that has started it: then it also
removes the folder of its data, unless the command ``end`` came before.
"""

from __future__ import annotations

import gc
import json
import shutil
import sys
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorCore
from twisted.internet.stdio import StandardIO
from twisted.logger import globalLogBeginner, textFileLogObserver
from twisted.protocols.basic import LineOnlyReceiver
from twisted.python.failure import Failure

from logd.errors import LogdError
from logd.net.allocator import keep_buffers
from logd.net.monotonic import use_monotonic_time
from logd.testing.kafka_brokers.serving import ServedBroker, ServingSettings


class _Commands(LineOnlyReceiver):
    """The conversation with the process that has started this one."""

    delimiter = b"\n"

    def __init__(self, reactor: IReactorCore, broker: ServedBroker, folder: str) -> None:
        self._reactor = reactor
        self._broker = broker
        #: The folder to remove when the other process has died; empty: none.
        self._folder = folder

    def connectionMade(self) -> None:  # noqa: N802  # Twisted calls it
        try:
            self._answer(native=self._broker.start())
        except LogdError as error:
            self._answer(error=str(error))
        except BaseException as error:
            self._answer(error=repr(error))
            raise

    def lineReceived(self, line: bytes) -> None:  # noqa: N802  # as above
        command: dict[str, Any] = json.loads(line)
        if command.get("end"):
            self._folder = ""
        if "delay" in command:
            self._broker.faults.seconds = command["delay"]
        self._answer(dropped=self._broker.faults.drop() if command.get("drop") else 0)

    def connectionLost(self, reason: Failure | None = None) -> None:  # noqa: N802  # as above
        stopping: Deferred[Any] = self._broker.stop()
        stopping.addBoth(self._stopped)

    def _stopped(self, result: object) -> object:
        if self._folder:
            shutil.rmtree(self._folder, ignore_errors=True)
        self._reactor.stop()
        return result

    def _answer(self, **fields: Any) -> None:
        self.sendLine(json.dumps(fields).encode())


def main() -> None:
    """Run the broker that the first argument describes."""
    from twisted.internet import reactor

    running: Any = reactor
    described = json.loads(sys.argv[1])
    # Kept open: the log of the process.
    log = open(described["log"], "a", encoding="utf-8", buffering=1)  # noqa: SIM115
    globalLogBeginner.beginLoggingTo([textFileLogObserver(log)], redirectStandardIO=False)
    use_monotonic_time(running)
    keep_buffers()
    gc.freeze()
    broker = ServedBroker(running, ServingSettings(**described["settings"]))
    running.callWhenRunning(StandardIO, _Commands(running, broker, described["folder"]))
    running.run()


if __name__ == "__main__":
    main()
