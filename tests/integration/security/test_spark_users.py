"""Spark as a user: what it may read and write, and that no password is in its plans, pages, logs or errors.

``LOGD_SPARK_PAGES=1 python -m twisted.trial tests.integration.security.test_spark_users`` runs it: a session with
pages takes half a minute.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from threading import Event, Thread
from unittest import skipUnless

from twisted.trial.unittest import SynchronousTestCase

from tests.integration.security.test_users import ANN, ROOT, place
from tests.integration.spark.rig import why_not

DRIVER = (sys.executable, str(Path(__file__).with_name("spark_users.py")))


class ImportOfUsersTests(SynchronousTestCase):
    """``logd import`` as a user: what it is refused, for which no session of Spark is begun."""

    def test_an_import_needs_a_user_who_may_read(self) -> None:
        """Nobody, a wrong password, and a topic of others are refused with the reason; nothing is written."""
        reason = why_not()
        if reason is not None:
            self.skipTest(reason)
        here = place()
        ann = {"LOGD_USER": "ann", "LOGD_PASSWORD_FILE": here.file("ann.password")}
        for topic, environment, text in (
            ("t", {}, "access rules do not let"),
            ("others", ann, "access rules do not let"),
            ("t", {"LOGD_USER": "ann", "LOGD_PASSWORD": "wrong"}, "the user or the password is wrong"),
        ):
            target = os.path.abspath(self.mktemp())
            done = here.logd("import", "--topics", topic, "--to", target, **environment)
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertIn(text, done.stderr)
            self.assertEqual(list(Path(target).glob("run=*")), [])


class CommandLines:
    """Looks again and again at the arguments of all processes for a text that should be in none."""

    def __init__(self, text: str) -> None:
        self._text = text.encode()
        self._ended = Event()
        self.found: set[bytes] = set()
        #: The number of processes of Java that were seen.
        self.of_java: set[str] = set()
        self._thread = Thread(target=self._look)
        self._thread.start()

    def _look(self) -> None:
        while not self._ended.wait(0.1):
            for each in Path("/proc").glob("[0-9]*/cmdline"):
                with contextlib.suppress(OSError):
                    arguments = each.read_bytes()
                    if self._text in arguments:
                        self.found.add(arguments)
                    if b"java" in arguments.partition(b"\0")[0]:
                        self.of_java.add(str(each))

    def stop(self) -> None:
        """Look no more."""
        self._ended.set()
        self._thread.join()


@skipUnless(os.environ.get("LOGD_SPARK_PAGES"), "set LOGD_SPARK_PAGES=1")
class ImportWithPasswordTests(SynchronousTestCase):
    """A whole import as a user."""

    def test_a_user_imports_and_its_password_shows_nowhere(self) -> None:
        """Neither in what is printed, nor in a file of the target, nor in the list of processes."""
        reason = why_not()
        if reason is not None:
            self.skipTest(reason)
        here, target = place(), Path(os.path.abspath(self.mktemp()))
        lines = CommandLines(ANN[1])
        try:
            environment = {"LOGD_USER": "ann", "LOGD_PASSWORD_FILE": here.file("ann.password")}
            report = ("--report", str(target.with_suffix(".json")))
            done = here.logd("import", "--topics", "t", "--to", str(target), *report, **environment)
        finally:
            lines.stop()
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(lines.found, set())
        self.assertTrue(lines.of_java, "no Java was seen")
        written = [each for each in target.rglob("*") if each.is_file()]
        self.assertTrue(written)
        self.assertNotIn(ANN[1], done.stdout + done.stderr)
        for each in (*written, target.with_suffix(".json")):
            self.assertNotIn(ANN[1].encode(), each.read_bytes(), each)


@skipUnless(os.environ.get("LOGD_SPARK_PAGES"), "set LOGD_SPARK_PAGES=1")
class SparkUsersTests(SynchronousTestCase):
    """One session of a real Spark, with its web page and its log of events."""

    def test_a_user_reads_and_writes_and_its_password_shows_nowhere(self) -> None:
        """The options name a file; what is in it goes to executors within their tasks, which Spark does not show."""
        reason = why_not()
        if reason is not None:
            self.skipTest(reason)
        here = place()
        with tempfile.TemporaryDirectory() as folder:
            place_of = {name: Path(folder, name) for name in ("pages, plans and errors", "log", "events")}
            place_of["events"].mkdir()
            files = [here.file(f"{name}.password") for name in ("root", "ann")]
            # Java's processes outlive the driver a little, and would keep a pipe open.
            with open(place_of["pages, plans and errors"], "wb") as out, open(place_of["log"], "wb") as log:
                command = [*DRIVER, here.broker.address, str(place_of["events"]), *files]
                status = subprocess.run(command, stdout=out, stderr=log, timeout=300, check=False).returncode
            shown = {
                what: "".join(each.read_text() for each in (path, *path.rglob("*")) if each.is_file())
                for what, path in place_of.items()
            }
        self.assertEqual(status, 0, shown["log"][-3000:])
        output = shown["pages, plans and errors"]
        found = json.loads(output.splitlines()[-1])
        self.assertIn("hello", found["values"])
        self.assertEqual((found["refused"], found["wrong"]), (True, True), output[-3000:])
        for what, text in shown.items():
            self.assertGreater(len(text), 1000, what)
            for _, password in (ROOT, ANN):
                self.assertNotIn(password, text, what)
