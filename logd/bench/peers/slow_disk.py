"""A broker whose disk syncs slowly while a flag file exists: for a bench, in a process of its own.

python -m logd.bench.peers.slow_disk FLAG SECONDS [options of twistd logd]
"""

from __future__ import annotations

import os
import sys
import time
from typing import Any

from attrs import define
from twisted.logger import globalLogBeginner, textFileLogObserver
from zope.interface import implementer

from logd.broker.service import BrokerService
from logd.config import Source, broker_settings, parse_assignments
from logd.interfaces import IFile, IFileOperations, IFileSystem
from logd.log.disk.local_files import LocalFile, LocalFiles
from logd.net.monotonic import use_monotonic_time
from logd.testing.processes.broker import BrokerProcess


class SlowFile(LocalFile):
    """A file whose fdatasync takes ``seconds`` longer while there is a file at ``flag``."""

    __slots__ = ("flag", "seconds")

    flag: str
    seconds: float

    def sync_data(self) -> None:
        """See IFile."""
        if os.path.exists(self.flag):
            time.sleep(self.seconds)
        super().sync_data()


@implementer(IFileOperations)
class SlowFiles(LocalFiles):
    """The local disk with SlowFiles on it."""

    def __init__(self, flag: str, seconds: float) -> None:
        self._flag = flag
        self._seconds = seconds

    def open(self, path: str, create: bool = False) -> IFile:
        """See IFileOperations."""
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT | os.O_EXCL if create else 0)
        file = SlowFile(path, os.open(path, flags, 0o644))
        file.flag, file.seconds = self._flag, self._seconds
        return file

    def file_system(self, path: str) -> IFileSystem | None:
        """Return None: a sync of the whole file system would not be slow."""
        return None


@define(eq=False)
class SlowDiskBroker(BrokerProcess):
    """A broker that runs as this module: ``options`` are KEY=VALUE, ``flag`` is the file that makes its disk slow."""

    flag: str = ""
    seconds: float = 1.0

    @property
    def command(self) -> list[str]:
        """The command line."""
        listen = f"tcp:{self.port}:interface=127.0.0.1"
        module = [sys.executable, "-m", "logd.bench.peers.slow_disk", self.flag, str(self.seconds)]
        module.append(self.log_path or f"{self.data}.log")
        tree = f"zookeeper.listen=tcp:{self.coordination_port}:interface=127.0.0.1"
        return [*module, self.data, listen, tree, *self.options]


def main(flag: str, seconds: str, log: str, data: str, listen: str, *assignments: str) -> None:
    """Serve until SIGTERM."""
    from twisted.internet import reactor as installed

    reactor: Any = installed
    use_monotonic_time(reactor)
    globalLogBeginner.beginLoggingTo([textFileLogObserver(open(log, "a"))], redirectStandardIO=False)  # noqa: SIM115
    settings = broker_settings(Source("", {"data": data, "listen": listen}), parse_assignments(assignments))
    service = BrokerService(reactor, settings, files=SlowFiles(flag, float(seconds)))
    service.startService()
    reactor.addSystemEventTrigger("before", "shutdown", service.stopService)
    reactor.run()


if __name__ == "__main__":
    main(*sys.argv[1:])
