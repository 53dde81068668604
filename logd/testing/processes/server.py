"""A server in a process of its own, as tests and benches end, pause and resume it."""

from __future__ import annotations

import signal
import subprocess
from types import TracebackType
from typing import Self


class ServerProcess:
    """What BrokerProcess, CoordinationProcess and ZooKeeperProcess share; a context manager that stops it at the end.

    Each says by ``start`` how it begins, and has the attributes below.
    """

    process: subprocess.Popen[bytes] | None
    #: Seconds in which it has to answer, and to stop when it is asked to.
    patience: float

    def start(self) -> Self:
        """Start it and wait until it serves. Raises LogdError with the end of its log when it does not."""
        raise NotImplementedError

    @property
    def pid(self) -> int:
        """The process's id; 0 when it does not run."""
        return 0 if self.process is None else self.process.pid

    @property
    def log(self) -> str:
        """Where it writes its log."""
        raise NotImplementedError

    def end_of_log(self) -> str:
        """The end of what it wrote, or why that cannot be read."""
        try:
            with open(self.log, encoding="utf-8", errors="replace") as log:
                return log.read()[-2000:]
        except OSError as error:
            return str(error)

    def stop(self) -> int:
        """Ask it to stop and return its exit status. Raises subprocess.TimeoutExpired when it does not."""
        return self._end(signal.SIGTERM)

    def kill(self) -> int:
        """SIGKILL it and return its exit status."""
        return self._end(signal.SIGKILL)

    def pause(self) -> None:
        """Stop it in its tracks (SIGSTOP) until ``resume``: it is there and says nothing."""
        if self.process is not None:
            self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on (SIGCONT)."""
        if self.process is not None:
            self.process.send_signal(signal.SIGCONT)

    def _end(self, number: int) -> int:
        process, self.process = self.process, None
        if process is None:
            return 0
        process.send_signal(number)
        process.send_signal(signal.SIGCONT)  # else one that is paused would not hear of it
        return process.wait(self.patience)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.stop()
        else:
            self.kill()
