"""A server in its own process, which tests and benches can stop, kill, pause and resume."""

from __future__ import annotations

import signal
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from logd.errors import LogdError

#: Seconds in which a server must answer, and stop when asked to, unless it is given others: generous, since the machine
#: may be busy. Nothing waits for it when all is well.
PATIENCE = 90.0
#: Seconds between two looks at a process that is to stand still.
_POLL_SECONDS = 0.001


def _stands_still(process: int) -> bool:
    """Return whether no thread of a process goes on before SIGCONT; True if the system does not tell."""
    try:
        threads = [each.read_text() for each in Path(f"/proc/{process}/task").glob("*/stat")]
    except OSError:  # one has ended meanwhile, or there is no such file system
        return not Path("/proc/self").exists()
    # T: stopped, t: traced, D: in the kernel, and stopped when it comes back from there, Z and X: ended.
    return all(each.rpartition(")")[2].split()[0] in "TtDZX" for each in threads)


class ServerProcess:
    """The base of BrokerProcess, CoordinationProcess and ZooKeeperProcess; a context manager that stops it at the end.

    Each subclass implements ``start`` and has the attributes below.
    """

    process: subprocess.Popen[bytes] | None
    #: Seconds in which it must answer, and stop when asked to.
    patience: float

    def start(self) -> Self:
        """Start it and wait until it serves. Raises LogdError with the end of its log on failure."""
        raise NotImplementedError

    @property
    def pid(self) -> int:
        """The process's id; 0 when it does not run."""
        return 0 if self.process is None else self.process.pid

    @property
    def log(self) -> str:
        """The path of its log."""
        raise NotImplementedError

    def end_of_log(self) -> str:
        """Return the end of its log, or the reason why the log cannot be read."""
        try:
            with open(self.log, encoding="utf-8", errors="replace") as log:
                return log.read()[-2000:]
        except OSError as error:
            return str(error)

    def stop(self) -> int:
        """Ask it to stop and return its exit status.

        Raises subprocess.TimeoutExpired if it does not stop within ``patience``; then it is killed.
        """
        return self._end(signal.SIGTERM)

    def kill(self) -> int:
        """SIGKILL it and return its exit status."""
        return self._end(signal.SIGKILL)

    def check_runs(self) -> None:
        """Raise LogdError, with the end of its log, if the process was started and has ended by itself."""
        if self.process is not None and self.process.poll() is not None:
            raise LogdError(f"a server ended with status {self.process.returncode}: {self.end_of_log()}")

    def pause(self) -> None:
        """Suspend it (SIGSTOP) until ``resume``, and return once it stands still: it exists and answers nothing."""
        if self.process is not None:
            self.process.send_signal(signal.SIGSTOP)
            while self.process.poll() is None and not _stands_still(self.process.pid):
                time.sleep(_POLL_SECONDS)

    def resume(self) -> None:
        """Let it go on (SIGCONT)."""
        if self.process is not None:
            self.process.send_signal(signal.SIGCONT)

    def _end(self, number: int) -> int:
        process, self.process = self.process, None
        if process is None:
            return 0
        process.send_signal(number)
        process.send_signal(signal.SIGCONT)  # a paused process would not receive the signal
        try:
            return process.wait(None if number == signal.SIGKILL else self.patience)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.stop()
        else:
            self.kill()
