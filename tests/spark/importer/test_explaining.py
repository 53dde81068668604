"""Tests of what is made of Spark's stack traces."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from logd.errors import BrokerUnavailable, CannotConnect, ConfigurationError, WrapperTooLarge
from logd.spark.blocking.reading import DataLost
from logd.spark.importer.errors import ImportFailed
from logd.spark.importer.explaining import explained
from logd.spark.importer.spark_loader import remedied

JAVA = """\
An error occurred while calling o107.save.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 3 in stage 0.0 failed 4 times
\tat org.apache.spark.scheduler.DAGScheduler.abortStage(DAGScheduler.scala:2898)
{}
Driver stacktrace:
\tat java.base/java.lang.Thread.run(Thread.java:840)
"""
PYTHON = """\
Caused by: org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "/x/worker.py", line 1, in main
    process()

{}

\tat org.apache.spark.api.python.BasePythonRunner(PythonRunner.scala:1)
"""
FULL = """\
Caused by: org.apache.spark.SparkException: [TASK_WRITE_FAILED] Task failed while writing rows.
\tat org.apache.spark.Some(Some.scala:1)
Caused by: java.io.IOException: No space left on device
\tat java.base/sun.nio.ch.FileDispatcherImpl.write0(Native Method)
\t... 20 more
"""


DENIED = """\
Caused by: org.apache.hadoop.ipc.RemoteException(org.apache.hadoop.security.AccessControlException): \
Permission denied: user=ada
\tat org.apache.hadoop.ipc.Client.call(Client.java:1)
"""


class Gone(Exception):
    """Asks a Java that has ended."""

    def __str__(self) -> str:
        raise ConnectionRefusedError("refused")


class ExplainedTests(SynchronousTestCase):
    """One sentence, whichever language said it."""

    def test_ours(self) -> None:
        """An error of ours keeps its kind, where it has one that a command knows, and its words."""
        for name, kind in (
            ("errors.BrokerUnavailable", BrokerUnavailable),
            ("errors.CannotConnect", CannotConnect),
            ("spark.reading.DataLost", DataLost),
        ):
            error = explained(Exception(JAVA.format(PYTHON.format(f"logd.{name}: because"))), "loading failed")
            self.assertIs(type(error), kind)
            self.assertEqual(str(error), "loading failed: because")
        error = explained(Exception("[X] ...\nlogd.errors.ConfigurationError: option x"), "it failed")
        self.assertIs(type(error), ConfigurationError)
        error = explained(Exception("logd.errors.CorruptMessage: damaged"), "it failed")
        self.assertEqual((type(error), str(error)), (ImportFailed, "it failed: damaged"))

    def test_permission(self) -> None:
        """What HDFS refuses while files are written is told as it is before."""
        said = str(explained(Exception(JAVA.format(DENIED)), "loading failed"))
        self.assertTrue(said.startswith("loading failed: Permission denied: user=ada: give that user the right"), said)

    def test_theirs(self) -> None:
        """Of Python's errors the last line, of Java's the first cause; of a query that is wrong the first line."""
        for text, reason in (
            (
                JAVA.format(PYTHON.format("ModuleNotFoundError: No module named 'logd'")),
                "ModuleNotFoundError: No module named 'logd'",
            ),
            (JAVA.format(FULL), "java.io.IOException: No space left on device"),
            (
                JAVA.format(""),
                "org.apache.spark.SparkException: Job aborted due to stage failure: Task 3 in stage 0.0 failed 4 times",
            ),
            (
                "[UNRESOLVED_COLUMN] `x` cannot be resolved;\n'Project ['x]\n",
                "[UNRESOLVED_COLUMN] `x` cannot be resolved",
            ),
            ("", "Exception"),
        ):
            error = explained(Exception(text), "loading failed")
            self.assertEqual((type(error), str(error)), (ImportFailed, f"loading failed in Spark: {reason}"))

    def test_nobody_to_ask(self) -> None:
        """Where the Java has ended, which would have the words, that is said."""
        self.assertEqual(
            str(explained(Gone(), "loading failed")), "loading failed in Spark: its JVM has ended (refused)"
        )


class RemediedTests(SynchronousTestCase):
    """An error of a read, in the words of the command."""

    def test_loss(self) -> None:
        """Of messages that went during a load, the one remedy is the import's."""
        lost = "loading failed: messages from 5 to 9 are lost; with failOnDataLoss=false they are left out"
        said = remedied(DataLost(lost))
        self.assertIsInstance(said, DataLost)
        self.assertIn("messages from 5 to 9 are lost; run the import again", str(said))
        self.assertNotIn("failOnDataLoss", str(said))

    def test_wrapper(self) -> None:
        """A wrapper that is too large names the command's option, and no way that an import does not have."""
        wrong = WrapperTooLarge("maxDecompressedMessages", 9, 5, 50, "topic 't', partition 0: ")
        said = str(remedied(ImportFailed(f"loading failed: {wrong}")))
        self.assertIn("raise --max-decompressed-messages", said)
        self.assertNotIn("maxDecompressed", said)
        self.assertNotIn("continue after", said)

    def test_others(self) -> None:
        """Others stay as they are."""
        error = ImportFailed("no")
        self.assertIs(remedied(error), error)
