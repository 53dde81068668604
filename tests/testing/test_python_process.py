"""Tests of logd.testing.processes.python_process: a forked process is to its parent what an executed one is."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from logd.testing.processes import python_process
from logd.testing.processes.python_process import SWITCH, ForkedProcess, ForkServer, can_fork, run_python

#: Prints whether it was forked from a process that had imported a broker.
_IS_FORKED = "import sys; print('logd.broker.service' in sys.modules)"
PATIENCE = 120.0


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

    def test_what_belongs_to_one_process_is_not_preloaded(self) -> None:
        """A module that installs the reactor, or starts a thread, is refused at the start of a server."""
        folder = Path(self.mktemp())
        folder.mkdir()
        folder.joinpath("busy.py").write_text(
            "import threading, time; threading.Thread(target=time.sleep, args=(60,), daemon=True).start()"
        )
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
        server = ForkServer.start(os.environ, ["logd.broker.service"])
        process = ForkedProcess(server, python("-c", program), serves=True, stdout=subprocess.PIPE, text=True)
        forked, parent, child_of, kept, started = process.communicate(timeout=PATIENCE)[0].split()
        self.assertEqual((forked, parent, kept, started), ("True", child_of, "True", "None"))
        server.control.close()
        assert server.process is not None
        self.assertEqual(server.process.wait(PATIENCE), 0)
