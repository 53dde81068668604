"""The two ways to run a broker for tests: on a thread of this process, and as a process of its own."""

from __future__ import annotations

import json
import selectors
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from logd.errors import LogdError
from logd.testing.kafka_brokers.private_reactor import ReactorThread
from logd.testing.kafka_brokers.serving import ServedBroker, ServingSettings
from logd.testing.processes.python_process import start_python

#: Seconds in which a process must stop when asked to.
_PATIENCE = 30.0
#: Seconds in which it must answer once it has started, else it is killed: generous, since the machine may be busy.
_ANSWER_SECONDS = 120.0
_LOG_CHARACTERS = 2000


class BrokerRun(Protocol):
    """A broker that runs from ``start`` to ``stop`` or ``kill``, again and again."""

    def start(self) -> tuple[str, int]:
        """Start it, and return the address for clients of logd. Raises LogdError with the reason if it does not."""
        ...

    def stop(self) -> None:
        """Stop it in order. Does nothing if it does not run."""
        ...

    def kill(self) -> None:
        """End it at once. Does nothing if it does not run."""
        ...

    def set_delay(self, seconds: float) -> None:
        """Let it see what Kafka's clients send only after so many seconds."""
        ...

    def drop(self) -> int:
        """Cut off the connections of Kafka's clients, and return their number."""
        ...


class BrokerOnThread:
    """A broker on the thread of a private reactor."""

    def __init__(self, thread: ReactorThread, settings: ServingSettings) -> None:
        self._thread = thread
        self._settings = settings
        self._broker: ServedBroker | None = None

    def start(self) -> tuple[str, int]:
        """See BrokerRun."""

        def start() -> tuple[str, int]:
            broker = ServedBroker(self._thread.reactor, self._settings)
            address = broker.start()
            self._broker = broker
            return address

        return self._thread.call(start)

    def stop(self) -> None:
        """See BrokerRun."""
        broker, self._broker = self._broker, None
        if broker is not None:
            self._thread.wait(broker.stop)

    def kill(self) -> None:
        """Cut off all clients and stop: a thread cannot be killed. The data are as after a stop in order."""
        broker = self._broker
        if broker is not None:
            self._thread.call(broker.faults.drop)  # before any request is answered or refused
            self.stop()

    def set_delay(self, seconds: float) -> None:
        """See BrokerRun."""
        broker = self._broker
        if broker is not None:
            self._thread.call(lambda: setattr(broker.faults, "seconds", seconds))

    def drop(self) -> int:
        """See BrokerRun."""
        return 0 if self._broker is None else self._thread.call(self._broker.faults.drop)


class BrokerInProcess:
    """A broker in a process of its own. It ends with this process, however that ends."""

    def __init__(self, settings: ServingSettings, folder: str) -> None:
        """``folder``: a folder for its log, which it removes when this process has died."""
        self._settings = settings
        self._folder = folder
        self.log = str(Path(folder, "broker.log"))
        self._process: subprocess.Popen[bytes] | None = None
        #: Held by the thread that has sent a command and waits for the answer to it.
        self._asking = threading.Lock()

    @property
    def pid(self) -> int:
        """The process's id; 0 when it does not run."""
        return 0 if self._process is None else self._process.pid

    def start(self) -> tuple[str, int]:
        """See BrokerRun."""
        described = {"settings": self._settings.encoded(), "log": self.log, "folder": self._folder}
        with open(self.log, "ab") as log:
            self._process = process = start_python(
                [sys.executable, "-m", "logd.testing.kafka_brokers.child", json.dumps(described)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,  # Ctrl-C at a terminal is for this process, which then ends that one
            )
        try:
            host, port = self._answer(process)["native"]
        except BaseException:
            self.kill()
            raise
        return host, port

    def stop(self) -> None:
        """See BrokerRun. Raises subprocess.TimeoutExpired if it does not stop; then it is killed."""
        process = self._process
        if process is not None:
            try:
                self._ask(end=True)
            finally:
                self._end(process)

    def kill(self) -> None:
        """See BrokerRun: SIGKILL."""
        process = self._process
        if process is not None:
            process.kill()
            self._end(process)

    def set_delay(self, seconds: float) -> None:
        """See BrokerRun."""
        if self._process is not None:
            self._ask(delay=seconds)

    def drop(self) -> int:
        """See BrokerRun."""
        return 0 if self._process is None else int(self._ask(drop=True)["dropped"])

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        self._process = None
        assert process.stdin is not None
        assert process.stdout is not None
        with suppress(OSError):  # a command that it did not take any more
            process.stdin.close()
        try:
            process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise
        finally:
            process.stdout.close()

    def _ask(self, **command: Any) -> dict[str, Any]:
        process = self._process
        if process is None:
            raise LogdError("the broker's process has ended")
        assert process.stdin is not None
        with self._asking:
            try:
                process.stdin.write(json.dumps(command).encode() + b"\n")
                process.stdin.flush()
                return self._answer(process, _ANSWER_SECONDS)
            except (OSError, ValueError) as error:  # ValueError: another thread has ended it, and closed the pipes
                raise LogdError(f"the broker's process has ended: {self._end_of_log()}") from error

    def _answer(self, process: subprocess.Popen[bytes], seconds: float | None = None) -> dict[str, Any]:
        assert process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            if not selector.select(seconds):
                process.kill()  # else a late answer would be taken for that to the next command
                raise LogdError(f"the broker's process does not answer within {seconds} seconds: {self._end_of_log()}")
        line = process.stdout.readline()
        answer: dict[str, Any] = json.loads(line) if line else {"error": self._end_of_log()}
        if "error" in answer:
            raise LogdError(f"the broker's process has ended: {answer['error']}")
        return answer

    def _end_of_log(self) -> str:
        return Path(self.log).read_text(encoding="utf-8", errors="replace")[-_LOG_CHARACTERS:]
