"""A real coordination server in its own process, on a free loopback port, ready when ``start`` returns."""

from __future__ import annotations

import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Self

from attrs import define, field

from logd.errors import LogdError
from logd.testing.processes.broker import free_port
from logd.testing.processes.python_process import start_python
from logd.testing.processes.server import PATIENCE, ServerProcess

#: Seconds between two checks whether a server answers yet.
_POLL_SECONDS = 0.02

_LOGD = "from logd.cli.main import main; main()"


def four_letter_word(port: int, word: bytes, timeout: float = 5.0, tls: ssl.SSLContext | None = None) -> bytes:
    """Return the answer of the server at a loopback port to ``ruok`` and its kin. Raises OSError. Blocks."""
    plain = socket.create_connection(("127.0.0.1", port), timeout=timeout)
    with plain if tls is None else tls.wrap_socket(plain, server_hostname="127.0.0.1") as connection:
        connection.sendall(word)
        pieces = []
        while piece := connection.recv(65536):
            pieces.append(piece)
        return b"".join(pieces)


@define(eq=False)
class CoordinationProcess(ServerProcess):
    """``logd zookeeper`` over the directory ``data``; a context manager that stops it at the end.

    ``options`` are further command-line options, ``log_path`` is the path of its log (by default ``DATA.log``). It
    keeps its port when it is started again.
    """

    data: str
    options: Sequence[str] = ()
    port: int = field(factory=free_port)
    log_path: str = ""
    #: Seconds in which it must answer, and stop when asked to.
    patience: float = PATIENCE
    #: The part after the port in an ``ssl:`` endpoint, as in ``privateKey=key.pem:certKey=cert.pem``; and the context
    #: that verifies that certificate.
    tls: str = ""
    tls_context: ssl.SSLContext | None = None
    process: subprocess.Popen[bytes] | None = field(default=None, init=False)

    @property
    def hosts(self) -> str:
        """The address for clients: ``127.0.0.1:PORT``."""
        return f"127.0.0.1:{self.port}"

    @property
    def log(self) -> str:
        """The path of its log."""
        return self.log_path or f"{self.data}.log"

    @property
    def command(self) -> list[str]:
        """The command line."""
        listen = f"ssl:{self.port}:{self.tls}" if self.tls else f"tcp:{self.port}"
        listen += ":interface=127.0.0.1"
        return [sys.executable, "-c", _LOGD, "zookeeper", "--data", self.data, "--listen", listen, *self.options]

    def start(self) -> Self:
        """Start it and wait until it answers ``ruok``. Raises LogdError with the end of its log on failure."""
        with open(self.log, "ab") as log:
            self.process = start_python(self.command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        deadline = time.monotonic() + self.patience
        while time.monotonic() < deadline and self.process.poll() is None:
            try:
                if four_letter_word(self.port, b"ruok", tls=self.tls_context) == b"imok":
                    return self
            except OSError:
                pass
            time.sleep(_POLL_SECONDS)
        self.kill()
        raise LogdError(f"the coordination server did not start: {self.end_of_log()}")
