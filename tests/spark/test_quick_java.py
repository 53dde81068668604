"""Tests of tests.spark.quick_java: which Java starts from an archive, and when the archive appears."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from tests.spark.quick_java import ARCHIVE, RECORDING, ZOOKEEPER_ARCHIVE, make_home

SPARK = ("-Xmx1g", "org.apache.spark.deploy.SparkSubmit", "two words")
ZOOKEEPER = ("-Xmx128m", "org.apache.zookeeper.server.quorum.QuorumPeerMain", "two words")
#: A Java that prints its arguments, and writes the archive that it is told to.
FAKE = """\
#!/bin/sh
printf '%s\\n' "$@"
for argument do
    case "$argument" in -XX:ArchiveClassesAtExit=*) echo classes > "${argument#*=}" ;; esac
done
"""


class QuickJavaTests(SynchronousTestCase):
    """The program that stands for Java in a JAVA_HOME of the tests."""

    def setUp(self) -> None:
        """Make a home around a Java that says what it was given."""
        self.home = Path(self.mktemp()).absolute() / "its home"
        java = self.home.parent / "java"
        java.parent.mkdir()
        java.write_text(FAKE)
        java.chmod(0o755)
        make_home(self.home, str(java))

    def arguments(self, *given: str, **environment: str) -> list[str]:
        """Return the arguments that Java has when the program has these."""
        program, more = self.home / "bin" / "java", {**os.environ, RECORDING: "", **environment}
        return subprocess.run([program, *given], env=more, capture_output=True, text=True, check=True).stdout.split(
            "\n"
        )

    def test_spark_starts_from_the_archive(self) -> None:
        """Its own arguments follow unchanged; Java says nothing of an archive that does not fit."""
        given = self.arguments(*SPARK)
        self.assertIn(f"-XX:SharedArchiveFile={self.home / ARCHIVE}", given)
        self.assertIn("-Xshare:auto", given)
        self.assertIn("-XX:TieredStopAtLevel=1", given)
        self.assertEqual(tuple(given[-4:-1]), SPARK)

    def test_zookeeper_starts_from_an_archive_of_its_own(self) -> None:
        """It writes the archive while it is recorded; its own arguments follow unchanged."""
        given = self.arguments(*ZOOKEEPER)
        self.assertIn(f"-XX:SharedArchiveFile={self.home / ZOOKEEPER_ARCHIVE}", given)
        self.assertIn("-Xshare:auto", given)
        self.assertEqual(tuple(given[-4:-1]), ZOOKEEPER)
        self.assertEqual(tuple(self.arguments(*ZOOKEEPER, **{RECORDING: "1"})[-4:-1]), ZOOKEEPER)
        self.assertEqual((self.home / ZOOKEEPER_ARCHIVE).read_text(), "classes\n")

    def test_everything_else_starts_as_it_is(self) -> None:
        """Other servers too, and what only prepares the start of Spark."""
        launcher = ("-cp", "jars", "org.apache.spark.launcher.Main", *SPARK[1:])
        for each in (("-version",), ("-cp", "jars", "org.apache.zookeeper.Main"), launcher):
            self.assertEqual(tuple(self.arguments(*each)[:-1]), each)

    def test_a_recording_session_leaves_the_archive(self) -> None:
        """It appears under its name when it is whole."""
        given = self.arguments(*SPARK, **{RECORDING: "1"})
        self.assertEqual((self.home / ARCHIVE).read_text(), "classes\n")
        self.assertNotIn(f"-XX:ArchiveClassesAtExit={self.home / ARCHIVE}", given)
        self.assertEqual(list(self.home.glob("*.new")), [])
