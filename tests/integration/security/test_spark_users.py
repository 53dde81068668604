"""Spark as a user: what it may read and write, and that no password is in its plans, pages, logs or errors.

``LOGD_SPARK_PAGES=1 python -m twisted.trial tests.integration.security.test_spark_users`` runs it: a session with
pages takes half a minute.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from unittest import skipUnless

from twisted.trial.unittest import SynchronousTestCase

from tests.integration.security.test_users import ANN, ROOT, place
from tests.integration.spark.rig import why_not

DRIVER = (sys.executable, str(Path(__file__).with_name("spark_users.py")))


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
