"""A real schema registry in its own process, on a free loopback port, ready when ``start`` returns."""

from __future__ import annotations

import subprocess
import sys
import time
import urllib.request
from typing import Self

from attrs import define, field

from logd.errors import LogdError
from logd.testing.processes.broker import free_port
from logd.testing.processes.python_process import start_python
from logd.testing.processes.server import PATIENCE, ServerProcess

#: Seconds between two checks whether a registry answers yet.
_POLL_SECONDS = 0.02

_TWISTD = "from twisted.scripts.twistd import run; run()"


@define(eq=False)
class SchemaRegistryProcess(ServerProcess):
    """``twistd -n logd-registry`` over the coordination tree at ``zookeeper``; a context manager that stops it.

    It keeps its port when it is started again.
    """

    zookeeper: str
    #: The path of its log.
    log_path: str
    port: int = field(factory=free_port)
    #: Seconds in which it must answer, and stop when asked to.
    patience: float = PATIENCE
    process: subprocess.Popen[bytes] | None = field(default=None, init=False)

    @property
    def url(self) -> str:
        """The address for clients."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def log(self) -> str:
        """The path of its log."""
        return self.log_path

    @property
    def command(self) -> list[str]:
        """The command line."""
        listen = f"tcp:{self.port}:interface=127.0.0.1"
        twistd = [sys.executable, "-c", _TWISTD, "-n", "--pidfile=", "--logfile", self.log]
        return [*twistd, "logd-registry", "--zookeeper", self.zookeeper, "--listen", listen]

    def start(self) -> Self:
        """Start it and wait until it is healthy. Raises LogdError with the end of its log on failure."""
        self.process = start_python(self.command, stdin=subprocess.DEVNULL, stderr=subprocess.STDOUT)
        deadline = time.monotonic() + self.patience
        while time.monotonic() < deadline and self.process.poll() is None:
            try:
                with urllib.request.urlopen(f"{self.url}/health", timeout=1):
                    return self
            except OSError:  # nothing listens yet, or the tree is not reached yet
                time.sleep(_POLL_SECONDS)
        self.kill()
        raise LogdError(f"the schema registry did not start: {self.end_of_log()}")
