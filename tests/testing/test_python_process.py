"""Tests of logd.testing.processes.python_process: a forked process is to its parent what an executed one is."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from logd.testing.processes import python_process
from logd.testing.processes.python_process import (
    NUMBER,
    SWITCH,
    ForkedProcess,
    ForkServer,
    can_fork,
    run_python,
    start_python,
)

#: Prints whether it was forked from a process that had imported a broker.
_IS_FORKED = "import sys; print('logd.broker.service' in sys.modules)"
#: Prints the names of variables that the preloaded modules read, and that are not known to be read at the start.
_READ = """
import importlib, os
read, get = set(), type(os.environ).__getitem__
type(os.environ).__getitem__ = lambda self, name: (read.add(name), get(self, name))[1]
from logd.testing.processes.python_process import PRELOADED, READ_AT_START
for each in PRELOADED:
    importlib.import_module(each)
print(*(name for name in read if not name.startswith(READ_AT_START)))
"""
#: Sends its main thread a signal from another thread, by the C library's idea of the main thread's id.
_SIGNALS_MAIN_THREAD = """
import signal, threading
signal.signal(signal.SIGUSR1, lambda *given: print("had"))
other = threading.Thread(target=signal.pthread_kill, args=(threading.main_thread().ident, signal.SIGUSR1))
other.start()
other.join()
"""
#: A module that can be asked after its end whether it is still ``__main__``.
_MODULE = """
import atexit, os, pickle, sys
class Own: pass
atexit.register(lambda: print(type(pickle.loads(pickle.dumps(Own()))) is Own))
print(sys.argv, sys.path[0], os.getcwd(), __file__, __spec__.name)
"""
#: Kills the fork server that it has, and starts two processes.
_KILLS_ITS_SERVER = f"""
import os, signal, sys
from logd.testing.processes.python_process import run_python
for each in open(f"/proc/self/task/{{os.getpid()}}/children").read().split():
    os.kill(int(each), signal.SIGKILL)
for each in range(2):
    run_python([sys.executable, "-c", {_IS_FORKED!r}])
"""
PATIENCE = 120.0


class _InterruptedSocket(socket.socket):
    """A socket at which Ctrl-C is pressed while an answer is waited for."""

    def recv(self, bufsize: int, flags: int = 0, /) -> bytes:
        """Raise."""
        raise KeyboardInterrupt


def python(*arguments: str) -> list[str]:
    """Return the command of an interpreter."""
    return [sys.executable, *arguments]


class StartPythonTests(SynchronousTestCase):
    """Small programs, forked and executed."""

    if not can_fork():
        skip = "forks of the asking process's own need Linux on x86_64 or aarch64"

    def setUp(self) -> None:
        """Turn it on."""
        self.patch(os, "environ", {**os.environ, SWITCH: "1"})
        os.environ.pop("COVERAGE_PROCESS_START", None)

    def output(self, program: str, **options: Any) -> str:
        """Return what a program prints, which has ended with status 0."""
        done = run_python(
            python("-c", program), capture_output=True, text=True, timeout=PATIENCE, check=True, **options
        )
        return str(done.stdout.rstrip("\n"))

    def test_it_is_forked_where_that_is_asked_for(self) -> None:
        """Without the switch, or with what the server cannot do, it is executed."""
        self.assertEqual(self.output(_IS_FORKED), "True")
        self.assertEqual(self.output(_IS_FORKED, process_group=0), "False")
        os.environ[SWITCH] = "0"
        self.assertEqual(self.output(_IS_FORKED), "False")

    def assert_same(self, *arguments: str, **options: Any) -> None:
        """Check that a program does forked what it does executed."""
        seen = []
        for switch in ("1", "0"):
            os.environ[SWITCH] = switch
            done = run_python(python(*arguments), capture_output=True, timeout=PATIENCE, **options)
            seen.append((done.returncode, done.stdout, done.stderr))
        self.assertEqual(*seen)
        os.environ[SWITCH] = "1"

    def test_it_is_a_child_with_an_exit_status(self) -> None:
        """The statuses are those of executed programs, signals included."""
        for program, status in (
            ("", 0),
            ("import sys; sys.exit(3)", 3),
            ("raise ValueError('wrong')", 1),
            ("import os, signal; os.kill(os.getpid(), signal.SIGINT)", -signal.SIGINT),
            ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL),
        ):
            for switch in ("1", "0"):
                os.environ[SWITCH] = switch
                done = run_python(python("-c", program), capture_output=True, text=True, timeout=PATIENCE)
                self.assertEqual(done.returncode, status, (program, switch, done.stderr))
        self.assertEqual(self.output("import os; print(os.getppid())"), str(os.getpid()))

    def test_it_has_its_arguments_environment_and_folder(self) -> None:
        """None of them is the server's; what the program changes is its own."""
        program = "import os, sys; print(sys.argv, os.environ['OWN'], os.getcwd()); os.environ['OWN'] = 'changed'"
        folder = self.mktemp()
        os.mkdir(folder)
        for own in ("first", "second"):
            ran = run_python(
                python("-c", program, "a", "b c"),
                capture_output=True,
                text=True,
                cwd=folder,
                env={**os.environ, "OWN": own},
            )
            self.assertEqual(ran.stdout, f"['-c', 'a', 'b c'] {own} {os.path.realpath(folder)}\n")

    def test_it_reads_and_writes_pipes(self) -> None:
        """Text that is not ASCII passes, and the streams end."""
        program = "import sys; text = sys.stdin.read(); print(text.upper()); print(len(text), file=sys.stderr)"
        done = run_python(python("-c", program), input="größe", capture_output=True, text=True, timeout=PATIENCE)
        self.assertEqual((done.stdout, done.stderr), ("GRÖSSE\n", "5\n"))
        both = run_python(
            python("-c", program),
            input="x",
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=PATIENCE,
        )
        self.assertEqual(sorted(both.stdout.split()), ["1", "X"])

    def test_its_output_is_buffered_as_the_environment_says(self) -> None:
        """A process that is killed has written what PYTHONUNBUFFERED sends at once, and nothing else."""
        program = "import os, signal, sys; sys.stdout.write('x'); os.kill(os.getpid(), signal.SIGKILL)"
        env = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
        for more, written in ({}, ""), ({"PYTHONUNBUFFERED": "1"}, "x"):
            for switch in ("1", "0"):
                os.environ[SWITCH] = switch
                ran = run_python(python("-c", program), env={**env, **more}, capture_output=True, text=True)
                self.assertEqual((ran.stdout, ran.returncode), (written, -signal.SIGKILL), switch)

    def test_its_streams_are_those_of_an_interpreter(self) -> None:
        """A line that ends with CR and LF keeps both; standard input has a buffer, even where the output has none."""
        program = (
            "import sys; print(sys.stdin.buffer.peek(1)[:1], ascii(sys.stdin.read()));"
            "[print(each, each.line_buffering, each.errors) for each in (sys.stdin, sys.stdout, sys.stderr)]"
        )
        for unbuffered in ("", "1"):
            env = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
            self.assert_same("-c", program, input=b"a\r\nb\rc\n", env=env)

    def test_its_arguments_and_variables_are_bytes(self) -> None:
        """They need not be text, and may be decoded otherwise than here."""
        program = "import os, sys; print(sys.argv[1:], sys.orig_argv[3:], ascii(os.environ['OWN']))"
        ascii_only = {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0", "PYTHONIOENCODING": "utf-8:replace"}
        for more in {}, ascii_only:
            env = {**os.environ, **more, "OWN": "gr\u00f6\u00dfe \udcff"}
            self.assert_same("-c", program, "gr\u00f6\u00dfe", "\udcff", env=env)

    def test_its_code_has_no_future_statement_of_the_server(self) -> None:
        """Annotations are evaluated."""
        self.assert_same("-c", "def function(x: int): pass\nprint(function.__annotations__)")

    def test_its_main_thread_can_be_signalled_by_another(self) -> None:
        """The C library knows the thread by its new id."""
        self.assert_same("-c", _SIGNALS_MAIN_THREAD)

    def test_it_is_main_to_its_end(self) -> None:
        """A module can pickle its own classes even in what it does at exit; its folder's name is the real one."""
        folder = Path(self.mktemp())
        folder.mkdir()
        folder.joinpath("said.py").write_text(_MODULE)
        link = folder.with_name("link")
        link.symlink_to(folder.name)
        self.assert_same("-m", "said", cwd=link)
        self.assert_same("-m", "said", cwd=link, env={**os.environ, "PYTHONSAFEPATH": "1"})

    def test_a_missing_module_is_reported_in_a_line(self) -> None:
        """The words are the interpreter's."""
        self.assert_same("-m", "logd.testing.missing")

    def test_it_is_set_up_when_it_is_known(self) -> None:
        """A signal at once reaches it, and so does one to its group; it holds its folder."""
        program = python("-c", "import time; time.sleep(5)")
        for _ in range(5):
            process = start_python(program, stderr=subprocess.DEVNULL)
            process.send_signal(signal.SIGINT)
            self.assertEqual(process.wait(PATIENCE), -signal.SIGINT)
            folder = self.mktemp()
            os.mkdir(folder)
            process = start_python(program, start_new_session=True, cwd=folder, stderr=subprocess.DEVNULL)
            self.addCleanup(process.wait)
            self.addCleanup(process.kill)
            self.assertEqual(os.readlink(f"/proc/{process.pid}/cwd"), os.path.realpath(folder))
            os.killpg(process.pid, signal.SIGKILL)

    def test_a_folder_that_is_not_there(self) -> None:
        """The error is that of subprocess.Popen; a folder removed under this process's feet is none."""
        with self.assertRaises(FileNotFoundError):
            start_python(python("-c", ""), cwd=self.mktemp())
        self.assertEqual(self.output(_IS_FORKED), "True")
        folder = self.mktemp()
        os.mkdir(folder)
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(folder)
        shutil.rmtree(os.getcwd())
        self.assertEqual(self.output("print('ran')"), "ran")

    def test_it_runs_modules(self) -> None:
        """A module has its own name as its first argument's, and the folder on its path."""
        folder = Path(self.mktemp())
        folder.mkdir()
        folder.joinpath("said.py").write_text("import sys; print(__name__, sys.argv[1:])")
        done = run_python(python("-m", "said", "x"), cwd=folder, capture_output=True, text=True, timeout=PATIENCE)
        self.assertEqual(done.stdout, "__main__ ['x']\n", done.stderr)

    def test_variables_that_an_interpreter_reads_at_its_start_count(self) -> None:
        """A server with other ones is asked."""
        folder = Path(self.mktemp())
        folder.mkdir()
        folder.joinpath("beside.py").write_text("found = 'beside'")
        there = {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder.resolve()), *sys.path])}
        self.assertEqual(self.output("import beside, sys; print(beside.found)", env=there), "beside")
        self.assertEqual(self.output(_IS_FORKED, env=there), "True")
        loops = "from logd.protocol.implementation import IMPLEMENTATION; print(IMPLEMENTATION)"
        self.assertEqual(self.output(loops, env={**os.environ, "LOGD_LOOPS": "python"}), "python")
        self.assertNotIn(there["PYTHONPATH"], self.output("import sys; print(sys.path)", env={}))

    def test_preloaded_modules_read_no_other_variables(self) -> None:
        """Those that they read at their import would be the server's for ever."""
        os.environ[SWITCH] = "0"
        # Twisted's plugins read LISTEN_PID for sockets that systemd passes, which a fork server does not.
        self.assertEqual(self.output(_READ), "LISTEN_PID")

    def test_a_session_of_its_own(self) -> None:
        """The groups of processes that tests kill begin with it."""
        program = "import os; print(os.getsid(0) == os.getpid())"
        self.assertEqual(self.output(program, start_new_session=True), "True")
        self.assertEqual(self.output(program), "False")

    def test_time_limits(self) -> None:
        """A command that takes too long is killed."""
        with self.assertRaises(subprocess.TimeoutExpired):
            run_python(python("-c", "import time; time.sleep(600)"), timeout=0.2)

    def test_no_descriptor_of_the_server_stays_open(self) -> None:
        """A process holds its three streams, and nothing that would keep another's pipe or port open."""
        program = "import os; print([each for each in map(int, os.listdir('/proc/self/fd')) if each > 2])"
        listed = self.output(program)
        self.assertEqual(len(listed.split(",")), 1, listed)  # the folder itself, while it is listed

    def test_a_server_that_has_died_is_replaced(self) -> None:
        """The next process is forked all the same."""
        servers: dict[Any, ForkServer] = {}
        self.patch(python_process, "_SERVERS", servers)
        self.assertEqual(self.output(_IS_FORKED), "True")
        (server,) = servers.values()
        assert server.process is not None
        server.process.kill()
        server.process.wait(PATIENCE)
        self.assertEqual(self.output(_IS_FORKED), "True")
        (other,) = servers.values()
        self.assertIsNot(other, server)
        for each in (server, other):
            self.addCleanup(each.control.close)

    def test_a_server_that_dies_meanwhile(self) -> None:
        """The process is executed, and the next one forked by another server."""
        servers: dict[Any, ForkServer] = {}
        self.patch(python_process, "_SERVERS", servers)
        self.assertEqual(self.output(_IS_FORKED), "True")
        (server,) = servers.values()
        assert server.process is not None
        server.process.kill()
        server.process.wait(PATIENCE)
        unseen = self.patch(ForkServer, "ended", lambda server: False)
        self.assertEqual(self.output(_IS_FORKED), "False")
        unseen.restore()
        self.assertEqual(self.output(_IS_FORKED), "True")
        for each in servers.values():
            self.addCleanup(each.control.close)

    def test_a_request_that_is_interrupted(self) -> None:
        """Its answer would be taken for that to the next one, so nothing more is asked of the server."""
        ours, theirs = socket.socketpair()
        self.addCleanup(theirs.close)
        server = ForkServer(_InterruptedSocket(fileno=ours.detach()))
        with self.assertRaises(KeyboardInterrupt):
            server.fork({}, [])
        self.assertTrue(server.ended())

    def test_an_end_in_the_middle_of_a_request(self) -> None:
        """The server ends with the process that asked."""
        server = self.start_server()
        socket.send_fds(server.control, [NUMBER.pack(1000)], [0, 1, 2])
        server.control.sendall(b"{")
        server.control.close()
        assert server.process is not None
        self.addCleanup(server.process.kill)
        self.assertEqual(server.process.wait(PATIENCE), 0)

    def test_what_belongs_to_one_process_is_not_preloaded(self) -> None:
        """A module that installs the reactor, or starts a thread, is refused at the start of a server."""
        folder = Path(self.mktemp())
        folder.mkdir()
        folder.joinpath("busy.py").write_text("import _thread, time; _thread.start_new_thread(time.sleep, (60,))")
        check = "from logd.testing.processes.fork_server import preload; preload([{}])"
        path = {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder.resolve()), *sys.path])}
        for module, error in (
            ("twisted.internet.reactor", "a preloaded module has installed the reactor"),
            ("busy", "a preloaded module has started a thread"),
        ):
            done = run_python(python("-c", check.format(repr(module))), env=path, capture_output=True, text=True)
            self.assertEqual(done.returncode, 1)
            self.assertTrue(done.stderr.endswith(f"RuntimeError: {error}\n"), done.stderr)

    def test_a_process_may_have_a_server_of_its_own(self) -> None:
        """The processes that it starts are its children, forked without another start of a server."""
        program = (
            "import os, sys; from logd.testing.processes.python_process import run_python, _SERVERS;"
            "servers = list(_SERVERS.values());"
            f"run_python([sys.executable, '-c', {_IS_FORKED + '; import os; print(os.getppid())'!r}]);"
            "print(os.getpid(), servers == list(_SERVERS.values()), servers[0].process)"
        )
        server = self.start_server()
        process = ForkedProcess(server, python("-c", program), serves=True, stdout=subprocess.PIPE, text=True)
        forked, parent, child_of, kept, started = process.communicate(timeout=PATIENCE)[0].split()
        self.assertEqual((forked, parent, kept, started), ("True", child_of, "True", "None"))

    def test_a_server_of_its_own_that_has_died_is_replaced(self) -> None:
        """One process is executed, the next one forked again."""
        command = python("-c", _KILLS_ITS_SERVER)
        process = ForkedProcess(self.start_server(), command, serves=True, stdout=subprocess.PIPE, text=True)
        self.assertEqual(process.communicate(timeout=PATIENCE)[0].split(), ["False", "True"])

    def start_server(self) -> ForkServer:
        """Start a server that ends with the test."""
        server = ForkServer.start(os.environ, ["logd.broker.service"])
        assert server.process is not None
        self.addCleanup(lambda process: self.assertEqual(process.wait(PATIENCE), 0), server.process)
        self.addCleanup(server.control.close)
        return server
