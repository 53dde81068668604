"""Tests of logd.doctor's views of limits, clock, ports, versions and files."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from logd.config import BrokerSettings, broker_settings
from logd.config.sources import parse_assignments
from logd.doctor.clock import examine_clock, in_step, latest_write
from logd.doctor.exposure import examine_files, examine_listeners, is_local, secret_files
from logd.doctor.limits import examine_limits, examine_memory
from logd.doctor.observation import Level, Observation, worst
from logd.doctor.ports import TcpPort, endpoints_of, examine_advertised, examine_ports
from logd.doctor.processes import ProcessLimits, limits_of, lock_holder, own_limits
from logd.doctor.versions import examine_peers, examine_versions, installed_version


def settings(*assignments: str) -> BrokerSettings:
    """Return settings of a broker."""
    return broker_settings(parse_assignments(["data=/d", *assignments]))


class LimitsTests(SynchronousTestCase):
    """Open files, threads and memory."""

    def level(self, limits: ProcessLimits, partitions: int = 0) -> Level:
        """Return the worst level with connections.max = 1000."""
        return worst(examine_limits(limits, "broker", settings("connections.max=1000"), partitions))

    def test_files(self) -> None:
        """Too few for connections is a problem, too few for many partitions a warning."""
        self.assertEqual(self.level(ProcessLimits(None, None)), Level.OK)
        self.assertEqual(self.level(ProcessLimits(1256, None)), Level.OK)
        self.assertEqual(self.level(ProcessLimits(1255, None)), Level.PROBLEM)
        self.assertEqual(self.level(ProcessLimits(1256, None), 1000), Level.WARNING)
        self.assertEqual(self.level(ProcessLimits(2000, None, 1990)), Level.WARNING)

    def test_threads(self) -> None:
        """A handful is too few."""
        self.assertEqual(self.level(ProcessLimits(None, 100)), Level.WARNING)

    def test_memory(self) -> None:
        """All that may wait for the disk has to fit."""
        self.assertEqual(worst(examine_memory(settings(), "MemAvailable: 100000 kB\n")), Level.WARNING)
        self.assertEqual(worst(examine_memory(settings(), "MemAvailable: 9000000 kB\n")), Level.OK)
        self.assertEqual(list(examine_memory(settings(), "")), [])

    def test_limits_of_a_process(self) -> None:
        """They are read from the system, and tell this process's open files."""
        limits = limits_of(os.getpid())
        assert limits is not None and limits.open_files is not None
        self.assertTrue(limits.open_files > 2)
        self.assertIsNone(limits_of(-1))
        self.assertIsNotNone(own_limits())

    def test_the_holder_of_a_lock(self) -> None:
        """A process that waits for the lock, and another file's holder, are not it."""
        data = Path(self.mktemp())
        data.mkdir()
        (data / "meta").touch()
        stat = (data / "meta").stat()
        file = f"{os.major(stat.st_dev):02x}:{os.minor(stat.st_dev):02x}:{stat.st_ino}"
        proc = Path(self.mktemp())
        proc.mkdir()
        (proc / "locks").write_text(
            f"1: FLOCK  ADVISORY  WRITE 41 {file}0 0 EOF\n1: -> FLOCK  ADVISORY  WRITE 42 {file} 0 EOF\n"
            f"2: FLOCK  ADVISORY  WRITE 43 {file} 0 EOF\nnonsense\n"
        )
        self.assertEqual(lock_holder(str(data), proc), 43)
        # A layered file system names another device: the process that has the file open is the one.
        (proc / "44" / "fd").mkdir(parents=True)
        (proc / "44" / "fd" / "3").symlink_to((data / "meta").absolute())
        (proc / "locks").write_text(
            "1: FLOCK ADVISORY WRITE 45 00:01:1 0 EOF\n2: FLOCK ADVISORY WRITE 44 00:01:1 0 EOF"
        )
        self.assertEqual(lock_holder(str(data), proc), 44)
        (proc / "locks").write_text("")
        self.assertIsNone(lock_holder(str(data), proc))


class ClockTests(SynchronousTestCase):
    """The time of day."""

    def test_a_clock_that_nothing_keeps(self) -> None:
        """Is a warning; where the system does not say, a note."""
        self.assertEqual(worst(examine_clock(False, None, 0.0)), Level.WARNING)
        self.assertEqual(worst(examine_clock(True, None, 0.0)), Level.OK)
        self.assertEqual(worst(examine_clock(None, None, 0.0)), Level.NOTE)
        self.assertIn(in_step(), (True, False, None))

    def test_a_clock_that_was_set_back(self) -> None:
        """Segments from the future show it."""
        (found,) = [each for each in examine_clock(True, ("a.log", 4600.0), 1000.0) if each.level > Level.OK]
        self.assertIn("3,600 seconds in the future", found.text)
        self.assertEqual(worst(examine_clock(True, ("a.log", 1002.0), 1000.0)), Level.OK)

    def test_the_newest_segment(self) -> None:
        """Of all partitions."""
        data = Path(self.mktemp())
        for number in range(3):
            (data / f"t-{number}").mkdir(parents=True)
            segment = data / f"t-{number}" / f"{0:020}.log"
            segment.touch()
            os.utime(segment, (number, number % 2 * 50))
        self.assertEqual(latest_write(str(data)), (str(data / "t-1" / f"{0:020}.log"), 50.0))


class PortsTests(SynchronousTestCase):
    """Ports that are free, taken, or answered."""

    def test_endpoints(self) -> None:
        """All listeners of TCP and TLS, whatever the order of their arguments; others are left out."""
        found = endpoints_of(
            settings(
                "listen=ssl:6667:privateKey=k\\:1.pem:certKey=c.pem",
                "http=tcp:interface=10.0.0.1:port=8080",
                "zookeeper.listen=unix:/tmp/s",
            )
        )
        self.assertEqual(found, [TcpPort("listen", "", 6667, True), TcpPort("http", "10.0.0.1", 8080)])
        (only,) = endpoints_of(settings("zookeeper.hosts=h:1", "listen=tcp6:1:interface=\\:\\:1"))
        self.assertEqual(only, TcpPort("listen", "::1", 1))

    def test_a_port_that_is_taken(self) -> None:
        """Is a problem for a broker that is to be started, and in order for one that runs."""
        with socket.create_server(("127.0.0.1", 0)) as server:
            taken = TcpPort("listen", "127.0.0.1", server.getsockname()[1])
            self.assertEqual(worst(examine_ports([taken], running=False)), Level.PROBLEM)
            self.assertEqual(worst(examine_ports([taken], running=True)), Level.OK)
        self.assertEqual(worst(examine_ports([taken], running=False)), Level.OK)
        self.assertEqual(worst(examine_ports([taken], running=True)), Level.PROBLEM)

    def test_a_port_or_a_name_that_is_none(self) -> None:
        """Is a problem, whether the broker is to be started or runs."""
        for running in (False, True):
            for host, port in (("127.0.0.1", 99999), ("a..b", 6667), ("x" * 64, 6667)):
                found = examine_ports([TcpPort("listen", host, port)], running)
                self.assertEqual(worst(found), Level.PROBLEM, (host, running))

    def test_an_address_that_is_another_machines(self) -> None:
        """Cannot be listened on."""
        self.assertEqual(worst(examine_ports([TcpPort("listen", "192.0.2.1", 6667)], running=False)), Level.PROBLEM)

    def test_the_address_that_clients_are_told(self) -> None:
        """Listening everywhere without one tells 127.0.0.1 to other machines."""
        self.assertEqual(worst(examine_advertised(settings("listen=tcp:6667"))), Level.WARNING)
        self.assertEqual(worst(examine_advertised(settings())), Level.OK)
        self.assertEqual(worst(examine_advertised(settings("advertise=127.0.0.1:1"))), Level.OK)
        for name in ("no.such.invalid", "a..b", "x" * 64):
            self.assertEqual(worst(examine_advertised(settings(f"advertise={name}:1"))), Level.PROBLEM, name)


class VersionsTests(SynchronousTestCase):
    """Installed versions."""

    def bad(self, requirement: str, here: str | None) -> list[Observation]:
        """Return the findings about one requirement that are problems."""
        found = examine_versions([requirement], lambda name: here)
        return [each for each in found if each.level == Level.PROBLEM]

    def test_lower_bounds(self) -> None:
        """Numbers are compared as numbers; packages of extras are not asked for."""
        self.assertEqual(self.bad("kazoo>=2.10", "2.10"), [])
        self.assertEqual(len(self.bad("kazoo>=2.10", "2.9.3")), 1)
        self.assertEqual(len(self.bad("Twisted[tls] >= 24.3", None)), 1)
        self.assertEqual(self.bad('pyspark>=4.0; extra == "spark"', None), [])
        self.assertIsNotNone(installed_version("twisted"))

    def test_an_old_kernel(self) -> None:
        """It reads cold pages on the reactor."""
        if sys.platform == "linux":
            self.assertEqual(
                [each.level for each in examine_versions([], installed_version, "4.13.0") if each.subject == "kernel"],
                [Level.WARNING],
            )

    def test_brokers_of_several_versions(self) -> None:
        """A note, as an upgrade is meant; one of an early release does not tell its own."""
        self.assertEqual(worst(examine_peers({1: "0.2.0", 2: "0.2.0"})), Level.OK)
        (found,) = examine_peers({1: "0.2.0", 2: ""})
        self.assertEqual(found.level, Level.NOTE)
        self.assertIn("broker 2: 0.1.0 or", found.text)


class ExposureTests(SynchronousTestCase):
    """The reach of others."""

    def listeners(self, *assignments: str) -> list[Level]:
        """Return the level of each listener but the tree's."""
        found = settings("zookeeper.hosts=h:1", *assignments)
        return [each.level for each in examine_listeners(found, endpoints_of(found))]

    def test_listeners(self) -> None:
        """Open to the network is a problem without users, and a warning without TLS."""
        self.assertEqual(self.listeners(), [Level.OK])
        self.assertEqual(self.listeners("listen=tcp:6667"), [Level.PROBLEM])
        self.assertEqual(self.listeners("listen=tcp:6667:interface=10.0.0.1"), [Level.PROBLEM])
        self.assertEqual(self.listeners("listen=tcp:6667", "security.required=true"), [Level.WARNING])
        self.assertEqual(self.listeners("listen=ssl:6667:privateKey=k:certKey=c", "security.required=true"), [Level.OK])

    def test_a_listener_with_which_a_broker_refuses_to_start(self) -> None:
        """Is a problem; one that is open on purpose is a warning, which says who may do what."""
        for wanted, level, told in (("false", Level.PROBLEM, "refuses to start"), ("true", Level.WARNING, "whoever")):
            found = settings("listen=tcp:6667", "zookeeper.listen=tcp:2181", f"open.to.network={wanted}")
            for each in examine_listeners(found, endpoints_of(found)):
                self.assertEqual(each.level, level, each)
                self.assertIn(told, each.text)
                self.assertTrue(each.remedy)

    def test_a_tree_on_the_network(self) -> None:
        """With credentials to demand it is open without TLS alone."""
        secret = "zookeeper.digest.credentials=a:b"
        for endpoint, tls, level in (
            ("tcp:2181", "false", Level.WARNING),
            ("ssl:2181:privateKey=k:certKey=c", "true", Level.OK),
        ):
            found = settings(f"zookeeper.listen={endpoint}", f"zookeeper.tls.enabled={tls}", secret)
            of_tree = [port for port in endpoints_of(found) if port.setting == "zookeeper.listen"]
            self.assertEqual([each.level for each in examine_listeners(found, of_tree)], [level])

    def test_local_addresses(self) -> None:
        """Loopback of both kinds; an empty one is every address."""
        self.assertEqual([is_local(each) for each in ("127.0.0.9", "::1", "localhost")], [True] * 3)
        self.assertEqual([is_local(each) for each in ("", "0.0.0.0", "10.0.0.1", "zk1")], [False] * 4)

    def test_the_keys_of_all_listeners(self) -> None:
        """Their paths may have colons."""
        found = settings(
            "listen=ssl:1:privateKey=k\\:1.pem",
            "legacy.listen=ssl:2:privateKey=legacy.pem",
            "legacy.registry=/kafka07",
            "http=ssl:3:privateKey=http.pem",
        )
        self.assertEqual([path for path, _ in secret_files(found, None)], ["k:1.pem", "legacy.pem", "http.pem"])

    def test_files_that_others_may_read(self) -> None:
        """Of secrets a problem, of the data directory a warning."""
        folder = Path(self.mktemp())
        folder.mkdir(mode=0o750)
        secret = folder / "credentials"
        secret.write_text("logd:secret")
        secret.chmod(0o600)
        files = secret_files(settings(f"zookeeper.digest.file={secret}"), None)
        self.assertEqual(worst(examine_files(files, str(folder))), Level.OK)
        secret.chmod(0o644)
        folder.chmod(0o755)
        found = list(examine_files(files, str(folder)))
        self.assertEqual([each.level for each in found], [Level.PROBLEM, Level.WARNING])
        self.assertIn(f"chmod 600 {secret}", found[0].remedy)
        secret.unlink()
        self.assertEqual(worst(examine_files(files, str(folder))), Level.PROBLEM)
