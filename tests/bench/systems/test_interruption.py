"""Tests of the end of a comparison in the middle: nothing runs on, and no folder is left."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from logd.bench.systems import process_group
from logd.bench.systems.comparison import PeerComparison, PeerPlan
from logd.bench.systems.interruption import ending_once
from logd.bench.systems.places import SystemPlaces
from logd.errors import LogdError
from tests.bench.systems.fake import FakePeer


class ProcessGroupTests(SynchronousTestCase):
    """``process_group``."""

    def test_kill_ends_what_the_process_has_started(self) -> None:
        """A tool that a client runs holds the pipe open until it ends as well."""
        process = process_group.start(["sh", "-c", "sleep 1000 & sleep 1000"], stdout=subprocess.PIPE)
        self.assertEqual(os.getpgid(process.pid), process.pid)
        process_group.kill(process)
        self.assertEqual(process.communicate(timeout=30)[0], b"")
        self.assertEqual(process.returncode, -signal.SIGKILL)

    def test_call_says_what_failed(self) -> None:
        """The error has the end of the output, or says that the program is missing."""
        self.assertEqual(process_group.call(["sh", "-c", "echo one; echo two >&2"], "."), "one\ntwo\n")
        error = self.assertRaises(LogdError, process_group.call, ["sh", "-c", "echo broken; exit 3"], ".")
        self.assertEqual(str(error), "sh failed: broken\n")
        error = self.assertRaises(LogdError, process_group.call, ["no-such-program"], ".")
        self.assertEqual(str(error), "there is no no-such-program on the PATH")


class EndingOnceTests(SynchronousTestCase):
    """``ending_once``."""

    def test_the_first_signal_ends_and_the_others_are_ignored(self) -> None:
        """A system is still stopped after a second Ctrl-C; afterwards signals do what they did before."""
        before = [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
        stopped = False
        try:
            with ending_once():
                try:
                    os.kill(os.getpid(), signal.SIGTERM)
                finally:
                    os.kill(os.getpid(), signal.SIGINT)
                    stopped = True
        except KeyboardInterrupt:
            self.assertTrue(stopped)
        else:
            self.fail("SIGTERM did not end the block")
        after = [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
        self.assertEqual(after, before)


class InterruptedComparisonTests(SynchronousTestCase):
    """A ``PeerComparison`` that is interrupted."""

    def test_the_system_is_stopped_and_its_folder_removed(self) -> None:
        """Ctrl-C comes while a client measures."""
        folder = Path(self.mktemp()).resolve()
        folder.mkdir()
        peers: list[FakePeer] = []

        class NotedPeer(FakePeer):
            def launch(self) -> None:
                super().launch()
                peers.append(self)

        def tell(text: str) -> None:
            if "produce" in text:
                raise KeyboardInterrupt

        plan = PeerPlan(messages=100, batches=(0,), rates=(), rounds=1, warm_messages=0)
        comparison = PeerComparison(str(folder), SystemPlaces(), plan, [NotedPeer], tell)
        self.assertRaises(KeyboardInterrupt, comparison.run)
        (peer,) = peers
        self.assertFalse(peer.serves())
        self.assertEqual(list(folder.iterdir()), [])
