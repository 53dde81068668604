"""A real broker in its own process, on a free loopback port, ready when ``start`` returns."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Self

from attrs import define, field

from logd.errors import LogdError
from logd.testing.processes.python_process import start_python
from logd.testing.processes.server import PATIENCE, ServerProcess
from logd.testing.reserved_port import ReservedPort

#: Seconds between two checks whether a broker answers yet.
_POLL_SECONDS = 0.02

_TWISTD = "from twisted.scripts.twistd import run; run()"


#: The ports of ``free_port``.
_RESERVED: list[ReservedPort] = []


def free_port() -> int:
    """Return a free TCP port of loopback, reserved while this process lives; see ReservedPort."""
    reserved = ReservedPort()
    _RESERVED.append(reserved)
    return reserved.number


@define(eq=False)
class BrokerProcess(ServerProcess):
    """``twistd -n logd`` over the data directory ``data``; a context manager that stops it at the end.

    ``options`` are further command-line options, ``log_path`` is the path of its log (by default ``DATA.log``). It
    keeps its port when it is started again.
    """

    data: str
    options: Sequence[str] = ()
    port: int = field(factory=free_port)
    log_path: str = ""
    #: A prefix of the command, such as ``("nice",)``.
    wrap: Sequence[str] = ()
    #: Seconds in which a broker must answer, and stop when asked to.
    patience: float = PATIENCE
    #: Servers of the coordination tree; without them, it runs its own at ``coordination_port``.
    zookeeper: str | None = None
    coordination_port: int = field(factory=free_port)
    process: subprocess.Popen[bytes] | None = field(default=None, init=False)

    @property
    def address(self) -> str:
        """The address for clients: ``127.0.0.1:PORT``."""
        return f"127.0.0.1:{self.port}"

    @property
    def coordination(self) -> str:
        """The address of the coordination tree that it uses."""
        return self.zookeeper or f"127.0.0.1:{self.coordination_port}"

    @property
    def log(self) -> str:
        """The path of its log."""
        return self.log_path or f"{self.data}.log"

    @property
    def command(self) -> list[str]:
        """The command line."""
        listen = f"tcp:{self.port}:interface=127.0.0.1"
        tree = f"--zookeeper-listen=tcp:{self.coordination_port}:interface=127.0.0.1"
        if self.zookeeper is not None:
            tree = f"--zookeeper={self.zookeeper}"
        twistd = [sys.executable, "-c", _TWISTD, "-n", "--pidfile=", "--logfile", self.log]
        return [*self.wrap, *twistd, "logd", "--data", self.data, "--listen", listen, tree, *self.options]

    def start(self) -> Self:
        """Start it and wait until it serves connections, and so stops cleanly at SIGTERM.

        Raises LogdError with the end of its log on failure.
        """
        self.process = start_python(self.command, stdin=subprocess.DEVNULL, stderr=subprocess.STDOUT)
        deadline = time.monotonic() + self.patience
        while time.monotonic() < deadline and self.process.poll() is None:
            try:
                with socket.create_connection(("127.0.0.1", self.port), timeout=1) as connection:
                    # The system accepts connections before the reactor runs, when SIGTERM would still kill the process;
                    # only the running reactor sees that this one ends, and ends it too.
                    connection.shutdown(socket.SHUT_WR)
                    connection.recv(1)
                    return self
            except OSError:
                time.sleep(_POLL_SECONDS)
        self.kill()
        raise LogdError(f"the broker did not start: {self.end_of_log()}")
