"""Processes of Python that start in a tenth of a second, since they are forked from one that has imported logd.

This is for test suites with many of them, and on only where LOGD_TESTING_FORK is 1 in the environment. A forked process
is to its parent what one of subprocess.Popen is, with these exceptions:

- In the lists of the system it has the command line and the environment of its server.
- It has imported what the server has, Twisted's TLS among it.
- The traceback of an error that it does not catch begins with lines of the server.
- Its umask, limits, priority, and blocked or ignored signals are those of its parent when that started the server.
- The hashes of strings are the same in all forks of a server.
"""

from __future__ import annotations

import inspect
import json
import os
import platform
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any
from weakref import WeakValueDictionary

from attrs import define, field

#: The modules that most servers and commands need. None of them may import the reactor, which belongs to one process.
PRELOADED = (
    "twisted.scripts.twistd",
    "twisted.plugins.logd_plugin",
    "logd.tap",
    "logd.broker.service",
    "logd.cli.main",
)
#: The length of a request, which is JSON, and the answer to it: the id of a process, which it sends itself once it is
#: set up, or 0 when none could be made.
NUMBER = struct.Struct(">Q")
#: The number of Linux's system call for each machine. ``os.fork`` takes no flags.
CLONE = {"x86_64": 56, "aarch64": 220}
#: The variable of the environment that turns it on.
SWITCH = "LOGD_TESTING_FORK"
#: Beginnings of the names of variables that are read at the start: by the interpreter, by the system's loader, by
#: libraries written in C, or by a preloaded module.
READ_AT_START = ("PYTHON", "LC_", "LANG", "LD_", "MALLOC_", "GLIBC_", "OPENSSL_", "LOGD_LOOPS", "PURE_PYTHON", "ZOPE_")
#: The options of subprocess.Popen that the fork server knows, beside those that the new process does not see.
FORK_OPTIONS = {"stdin", "stdout", "stderr", "env", "cwd", "start_new_session", "text", "encoding", "errors", "bufsize"}


def as_text(given: str | bytes | os.PathLike[Any]) -> str:
    """Return the bytes that the system would get, one a character: the server may decode them otherwise."""
    return os.fsencode(given).decode("latin-1")


def _of_interpreter(environment: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(item for item in environment.items() if item[0].startswith(READ_AT_START)))


@define(eq=False)
class ForkServer:
    """A process that forks others for this one, and ends with it."""

    control: socket.socket
    #: The process, unless it was left behind by the server that forked this process.
    process: subprocess.Popen[bytes] | None = None
    lock: threading.Lock = field(factory=threading.Lock)

    @classmethod
    def start(cls, environment: Mapping[str, str], modules: Sequence[str] = PRELOADED) -> ForkServer:
        """Start one whose interpreter has this environment and has imported these modules."""
        control, theirs = socket.socketpair()
        with theirs:
            command = [sys.executable, "-m", "logd.testing.processes.fork_server", str(theirs.fileno()), *modules]
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, env=environment, pass_fds=[theirs.fileno()])
        return cls(control, process)

    def ended(self) -> bool:
        """Return whether it was killed, or is not to be asked any more."""
        return self.control.fileno() == -1 or (self.process is not None and self.process.poll() is not None)

    def fork(self, request: Mapping[str, Any], descriptors: Sequence[int]) -> int:
        """Return the id of a new child of this process. Raises OSError."""
        body = json.dumps(request).encode()
        with self.lock:
            try:
                socket.send_fds(self.control, [NUMBER.pack(len(body))], descriptors)
                self.control.sendall(body)
                answer = self.control.recv(NUMBER.size, socket.MSG_WAITALL)
                if len(answer) < NUMBER.size:
                    raise OSError("the server that forks processes for tests has ended")
            except BaseException:
                self.control.close()  # else the answer could be taken for that to the next request
                raise
        (process,) = NUMBER.unpack(answer)
        if not process:
            raise OSError("the system made no process")
        return int(process)


#: The servers of this process, by its id, since a fork of it must not ask them, and by what their interpreter read.
_SERVERS: dict[tuple[int, tuple[tuple[str, str], ...]], ForkServer] = {}
_STARTING = threading.Lock()
#: The processes that ``start_python`` has started, by their ids.
_STARTED: WeakValueDictionary[int, subprocess.Popen[Any]] = WeakValueDictionary()


def adopt(server: ForkServer) -> None:
    """Have a server fork the processes that this one starts with its own environment."""
    _SERVERS[os.getpid(), _of_interpreter(os.environ)] = server


def _server(environment: Mapping[str, str]) -> ForkServer:
    key = os.getpid(), _of_interpreter(environment)
    with _STARTING:
        found = _SERVERS.get(key)
        if found is None or found.ended():
            found = _SERVERS[key] = ForkServer.start(environment)
        return found


class ForkedProcess(subprocess.Popen[Any]):
    """A process that a fork server makes; all but its start is subprocess.Popen's."""

    def __init__(self, server: ForkServer, command: Sequence[str], *, serves: bool = False, **options: Any) -> None:
        """``serves``: the process has a fork server of its own from its start. ``options``: those in FORK_OPTIONS."""
        self._server = server
        self._serves = serves
        super().__init__(command, **options)

    def _execute_child(self, *given: Any) -> None:
        """Take the place of the method that forks and executes: ask the server, and close the ends for the child."""
        replaced = subprocess.Popen._execute_child  # type: ignore[attr-defined]  # Popen's own
        asked = inspect.signature(replaced).bind(self, *given).arguments
        environment = os.environ if asked["env"] is None else asked["env"]
        request = {
            "arguments": [as_text(each) for each in asked["args"][1:]],
            "environment": {as_text(name): as_text(value) for name, value in environment.items()},
            "folder": as_text(os.path.realpath(asked["cwd"] or ".", strict=True)),
            "new_session": asked["start_new_session"],
            "serves": self._serves,
        }
        ends = [asked[name] for name in ("p2cread", "c2pwrite", "errwrite")]
        self.pid = self._server.fork(request, [number if end == -1 else end for number, end in enumerate(ends)])
        self._child_created = True
        pipes = ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")
        self._close_pipe_fds(*(asked[name] for name in pipes))  # type: ignore[attr-defined]  # Popen's own


def forks() -> bool:
    """Return whether processes are to be forked here, and can be."""
    # Coverage counts from the start of an interpreter.
    return os.environ.get(SWITCH) == "1" and can_fork() and "COVERAGE_PROCESS_START" not in os.environ


def can_fork() -> bool:
    """Return whether this system has what a fork server needs."""
    return sys.platform == "linux" and platform.machine() in CLONE


def start_python(command: Sequence[str], **options: Any) -> subprocess.Popen[Any]:
    """Start a process as subprocess.Popen does, with its options; fork it where that was asked for and is possible.

    It is possible on Linux, for ``[sys.executable, "-c" or "-m", ...]`` with the options in FORK_OPTIONS. All else is
    executed, and so is a process that the server fails to make.
    """
    process = _started(command, options)
    _STARTED[process.pid] = process
    return process


def kill_started() -> None:
    """Kill the processes that ``start_python`` has started here and that still run, and wait for their end."""
    for reference in _STARTED.valuerefs():  # a list, whatever other threads start meanwhile
        process = reference()
        if process is not None:
            process.kill()
            process.wait()


def _started(command: Sequence[str], options: dict[str, Any]) -> subprocess.Popen[Any]:
    how = list(command[:2])
    if how in ([sys.executable, "-c"], [sys.executable, "-m"]) and options.keys() <= FORK_OPTIONS and forks():
        environment = options.get("env")
        with suppress(OSError):  # Popen succeeds without a server, or raises its own error
            return ForkedProcess(_server(os.environ if environment is None else environment), command, **options)
    return subprocess.Popen(command, **options)


def run_python(
    command: Sequence[str], *, timeout: float | None = None, check: bool = False, **options: Any
) -> subprocess.CompletedProcess[Any]:
    """Run a command to its end as subprocess.run does, with ``start_python``."""
    given = options.pop("input", None)
    if given is not None:
        options["stdin"] = subprocess.PIPE
    if options.pop("capture_output", False):
        options["stdout"] = options["stderr"] = subprocess.PIPE
    with start_python(command, **options) as process:
        try:
            output, errors = process.communicate(given, timeout)
        except BaseException:
            process.kill()
            raise
    done = subprocess.CompletedProcess(process.args, process.returncode, output, errors)
    if check:
        done.check_returncode()
    return done
