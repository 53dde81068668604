"""Tests of the command ``logd zookeeper``: refused starts, clean ends, a full disk."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from logd.coord.server.wire.opcodes import Opcode
from logd.protocol.requests.fields import INT32
from logd.testing.processes.coordination import CoordinationProcess, four_letter_word
from logd.testing.processes.python_process import run_python
from tests.integration.broker.mounts import enlarge, mount_small
from tests.integration.coordination.peers import PATIENCE, CoordinationTestCase, TreePeer, create, read


class CommandTests(CoordinationTestCase):
    """Commands while one server runs."""

    def refused(self, process: CoordinationProcess) -> tuple[int, str]:
        """Run a server that ends by itself; return its status and its errors."""
        found = subprocess.run(process.command, capture_output=True, text=True, timeout=PATIENCE, check=False)
        return found.returncode, found.stderr

    def another(self) -> str:
        """Return the path of a directory that does not exist yet."""
        return str(Path(self.mktemp()).absolute())

    def test_a_directory_in_use_is_refused_with_the_remedy(self) -> None:
        """The first server is not disturbed, and the error shows no traceback."""
        status, text = self.refused(CoordinationProcess(self.server.data))
        self.assertEqual(status, 1)
        self.assertIn(f"{self.server.data} is in use by another process", text)
        self.assertIn("a directory of its own", text)
        self.assertNotIn("Traceback", text)
        self.assertEqual(four_letter_word(self.server.port, b"ruok"), b"imok")

    def test_a_port_in_use_is_refused_with_the_option(self) -> None:
        """It is wrong use, status 2, without a traceback."""
        status, text = self.refused(CoordinationProcess(self.another(), port=self.server.port))
        self.assertEqual(status, 2)
        self.assertIn("give another --listen", text)
        self.assertNotIn("Traceback", text)

    def test_a_brokers_data_directory_is_refused(self) -> None:
        """The tree's files would be among the partitions."""
        path = Path(self.another())
        path.mkdir(parents=True)
        (path / "meta").write_text("{}")
        status, text = self.refused(CoordinationProcess(str(path)))
        self.assertEqual(status, 1)
        self.assertIn("a broker's data directory", text)

    def test_brokers_list_leaves_out_a_broker_of_0_7(self) -> None:
        """A line on stderr names its node; the brokers that can be read are listed."""
        peer = self.peer()
        entry = json.dumps({"host": "10.0.0.5", "port": 6667, "instance": "some-uuid", "topics": {}}).encode()
        for path, data in (("/brokers", b""), ("/brokers/ids", b""), ("/brokers/ids/7", b"x:127.0.0.1:9092")):
            peer.ask(Opcode.CREATE, create(path, data))
        peer.ask(Opcode.CREATE, create("/brokers/ids/8", entry))
        command = [sys.executable, "-c", "from logd.cli.main import main; main()", "brokers", "list"]
        found = run_python(
            [*command, "--zookeeper", self.server.hosts], capture_output=True, text=True, timeout=PATIENCE, check=False
        )
        self.assertEqual((found.returncode, found.stderr.count("\n")), (0, 1), found.stderr)
        self.assertIn("/brokers/ids/7 is left out", found.stderr)
        self.assertIn("10.0.0.5", found.stdout)

    def test_damage_stops_the_start_and_changes_nothing(self) -> None:
        """The error says to put back a copy, which must find the damaged files as they are."""
        self.peer()
        self.server.stop()
        (changes,) = Path(self.server.data).glob("changes.*")
        (Path(self.server.data) / "mark").write_bytes(b"logd-mark 1 00000000000000004711 57118636\n")
        before = changes.read_bytes()
        status, text = self.refused(self.server)
        self.assertEqual(status, 1)
        self.assertIn("Put back a copy", text)
        self.assertEqual(changes.read_bytes(), before)

    def test_sigint_is_status_0(self) -> None:
        """A server in a terminal is ended by Ctrl-C as a rule, which is no failure."""
        process = self.server.process
        assert process is not None
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(PATIENCE), 0)

    def test_the_server_listens_where_it_is_told(self) -> None:
        """Here on loopback alone; the log names the address, which an operator looks for first."""
        with socket.create_connection(("127.0.0.1", self.server.port)):
            pass
        self.assertIn("127.0.0.1", self.server.end_of_log())


class FullDiskTests(SynchronousTestCase):
    """A server on a disk without room."""

    def test_clients_wait_until_a_full_disk_has_room(self) -> None:
        """All 400 requests are answered in order without a restart, and a kill afterwards loses none of them."""
        place = Path(self.mktemp()).absolute()
        mount_small(place, 256 << 10, self.addCleanup)
        with CoordinationProcess(str(place), log_path=f"{place}.log", options=("--snapshot-bytes", "50000")) as server:
            with TreePeer(server.port) as peer:
                (place / "filler").write_bytes(bytes(150 << 10))
                sent = 400
                for number in range(sent):
                    peer.send(number, Opcode.CREATE, create(f"/{number}", bytes(1000)))
                deadline = time.monotonic() + PATIENCE
                while "make room on that disk" not in Path(f"{place}.log").read_text(encoding="utf-8"):
                    self.assertLess(time.monotonic(), deadline)
                    time.sleep(0.05)
                self.assertEqual(four_letter_word(server.port, b"ruok"), b"imok")
                (place / "filler").unlink()
                enlarge(place, 8 << 20)
                self.assertEqual([peer.answer()[0] for _ in range(sent)], list(range(sent)))
            server.kill()
            server.start()
            with TreePeer(server.port) as peer:
                self.assertEqual(INT32.unpack_from(peer.ask(Opcode.GET_CHILDREN, read("/"))[3])[0], sent + 1)
