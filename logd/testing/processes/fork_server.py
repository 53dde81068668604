"""``python -m logd.testing.processes.fork_server FD MODULE...``: a process that forks others, which have these modules.

The import of a broker takes most of a second of a processor, and a test suite starts a thousand processes. A fork of
this one begins with all of it imported. It is a child of the process that asked for it, which can wait for it, kill it
and use its pipes as if it had started it. The side that asks is in python_process.
"""

from __future__ import annotations

import builtins
import ctypes
import gc
import importlib
import io
import json
import os
import platform
import runpy
import signal
import socket
import sys
import time
from collections.abc import Iterable
from types import ModuleType
from typing import Any

from logd.testing.processes.python_process import CLONE, NUMBER, ForkServer, adopt

#: Of Linux: the parent of the new process is that of this one, so the system tells its end to whoever asked for it.
_CLONE_PARENT = 0x8000
#: Of Linux: write the new process's thread id where the C library keeps it, as its own fork does.
_CLONE_CHILD_TID = 0x01000000 | 0x00200000
_GET_TID_ADDRESS = 40


def preload(modules: Iterable[str]) -> None:
    """Import modules. Raises RuntimeError if a fork would share what belongs to one process."""
    for name in modules:
        importlib.import_module(name)
    if "twisted.internet.reactor" in sys.modules:
        raise RuntimeError("a preloaded module has installed the reactor")
    if len(os.listdir("/proc/self/task")) > 1:  # threads of libraries count as well
        raise RuntimeError("a preloaded module has started a thread")
    gc.collect()
    gc.freeze()  # so that collections in the forks do not write to the pages that they share


def serve(control: socket.socket) -> dict[str, Any] | None:
    """Fork a process for each request.

    Returns the request in each new process, and None in this one when the process that asks has ended, or given up.
    """
    system = ctypes.CDLL(None)
    thread_id = ctypes.c_void_p()
    system.prctl(_GET_TID_ADDRESS, ctypes.byref(thread_id), 0, 0, 0)
    # The fourth argument is the address on x86_64, the fifth on aarch64; the other is ignored.
    clone = (
        CLONE[platform.machine()],
        _CLONE_PARENT | _CLONE_CHILD_TID | signal.SIGCHLD,
        None,
        None,
        thread_id,
        thread_id,
    )
    before, in_child, in_parent = (
        getattr(ctypes.pythonapi, name) for name in ("PyOS_BeforeFork", "PyOS_AfterFork_Child", "PyOS_AfterFork_Parent")
    )
    while True:
        head, descriptors, _, _ = socket.recv_fds(control, NUMBER.size, 3)
        body = _read(control, *NUMBER.unpack(head)) if head else b""
        if not body:
            control.close()
            return None
        request: dict[str, Any] = json.loads(body)
        before()
        process = system.syscall(*clone)
        if process == 0:
            in_child()
            with control:
                try:
                    _set_up(request, descriptors)
                finally:
                    control.sendall(NUMBER.pack(os.getpid()))
            return request
        in_parent()
        for descriptor in descriptors:
            os.close(descriptor)
        if process == -1:
            control.sendall(NUMBER.pack(0))


def _set_up(request: dict[str, Any], descriptors: list[int]) -> None:
    """Do in the new process what others can see as soon as they know of it."""
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
        os.close(descriptor)
    if request["new_session"]:
        os.setsid()
    os.chdir(_native(request["folder"]))


def _native(text: str) -> str:
    """Return the text that this interpreter makes of the bytes that ``as_text`` was given."""
    return os.fsdecode(text.encode("latin-1"))


def _read(control: socket.socket, size: int) -> bytes:
    """Return so many bytes, or none if the other end was closed before them."""
    found = bytearray()
    while len(found) < size:
        received = control.recv(size - len(found))
        if not received:
            return b""
        found += received
    return bytes(found)


def run(request: dict[str, Any]) -> None:
    """Become the program of a request, as the interpreter would at its start."""
    os.environ.clear()
    os.environ.update({_native(name): _native(value) for name, value in request["environment"].items()})
    time.tzset()
    for descriptor, name in enumerate(("stdin", "stdout", "stderr")):
        stream = _stream_like(getattr(sys, name), descriptor, name)
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    arguments = [_native(each) for each in request["arguments"]]
    how, what = arguments[:2]
    sys.orig_argv = [sys.executable, *arguments]
    sys.argv = [how, *arguments[2:]]
    if not sys.flags.safe_path:
        sys.path[0] = "" if how == "-c" else os.getcwd()
    main = sys.modules["__main__"] = ModuleType("__main__")
    vars(main)["__builtins__"] = builtins
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    if how == "-m":
        runpy._run_module_as_main(what)  # type: ignore[attr-defined]  # the interpreter's own way
    else:
        exec(compile(what, "<string>", "exec", dont_inherit=True), vars(main))


def _stream_like(old: io.TextIOWrapper, descriptor: int, name: str) -> io.TextIOWrapper:
    """Return a stream with the encoding and the buffering that the environment asked for, of what is there now."""
    unbuffered = old.write_through  # by PYTHONUNBUFFERED
    mode = old.mode
    buffering = 0 if unbuffered and mode == "w" else -1
    binary: Any = open(descriptor, mode + "b", buffering, closefd=False)  # noqa: SIM115  # stays open
    getattr(binary, "raw", binary).name = f"<{name}>"
    lines = not unbuffered and (name == "stderr" or binary.isatty())
    stream = io.TextIOWrapper(binary, old.encoding, old.errors, "\n", lines, unbuffered)
    stream.mode = mode  # type: ignore[misc]  # set from outside by the interpreter too
    return stream


def main() -> None:
    """Serve until the other end of the socket, a descriptor in the arguments, is closed."""
    control = socket.socket(fileno=int(sys.argv[1]))
    modules = sys.argv[2:]
    # Ctrl-C at a terminal is for the process that asks. A new process gets it, however early, since it is not ignored.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    preload(modules)
    request = serve(control)
    while request is not None and request["serves"]:
        ours, theirs = socket.socketpair()
        if os.fork():
            theirs.close()
            adopt(ForkServer(ours))
            break
        ours.close()
        request = serve(theirs)
    if request is not None:
        run(request)


if __name__ == "__main__":
    main()
