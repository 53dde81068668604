"""Tests of logd.spark.importer.explaining: a stack trace of Spark becomes a sentence."""

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


class GoneError(Exception):
    """An error of py4j whose text would have to come from a JVM that has ended."""

    def __str__(self) -> str:
        raise ConnectionRefusedError("refused")


class ExplainedTests(SynchronousTestCase):
    """``explained``."""

    def test_an_error_of_logd_keeps_its_kind(self) -> None:
        """A command gives the status of that kind, with the error's own words."""
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

    def test_a_refusal_of_hdfs_is_told_with_its_remedy(self) -> None:
        """The words are those of a refusal before files are written."""
        said = str(explained(Exception(JAVA.format(DENIED)), "loading failed"))
        self.assertTrue(said.startswith("loading failed: Permission denied: user=ada: give that user the right"), said)

    def test_another_error_becomes_its_cause(self) -> None:
        """The cause is the last line of Python's traceback, the first cause of Java's, or the query's first line."""
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

    def test_an_ended_jvm_is_said_to_have_ended(self) -> None:
        """The error's text cannot be read any more."""
        self.assertEqual(
            str(explained(GoneError(), "loading failed")), "loading failed in Spark: its JVM has ended (refused)"
        )


class RemediedTests(SynchronousTestCase):
    """``remedied``, which puts errors of a read in the words of the command."""

    def test_a_loss_during_a_load_has_the_imports_remedy(self) -> None:
        """An option of the data source does not exist in the command."""
        lost = "loading failed: messages from 5 to 9 are lost; with failOnDataLoss=false they are left out"
        said = remedied(DataLost(lost))
        self.assertIsInstance(said, DataLost)
        self.assertIn("messages from 5 to 9 are lost; run the import again", str(said))
        self.assertNotIn("failOnDataLoss", str(said))

    def test_a_wrapper_too_large_names_the_commands_option(self) -> None:
        """An import cannot continue after a wrapper, so that advice is left out."""
        wrong = WrapperTooLarge("maxDecompressedMessages", 9, 5, 50, "topic 't', partition 0: ")
        said = str(remedied(ImportFailed(f"loading failed: {wrong}")))
        self.assertIn("raise --max-decompressed-messages", said)
        self.assertNotIn("maxDecompressed", said)
        self.assertNotIn("continue after", said)

    def test_another_error_stays_as_it_is(self) -> None:
        """The text of such an error names no option of the data source."""
        error = ImportFailed("no")
        self.assertIs(remedied(error), error)
