"""Tests of logd.spark.importer.targets.hadoop_errors."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from logd.spark.importer.targets.hadoop_errors import in_one_sentence

DENIED = """\
Permission denied: user=ada, access=WRITE, inode="/":hdfs:supergroup:drwxr-xr-x
\tat org.apache.hadoop.hdfs.server.namenode.FSPermissionChecker.check(FSPermissionChecker.java:504)
\tat org.apache.hadoop.ipc.Server$Handler.run(Server.java:3203)
"""
CALL = (
    "Call From here/127.0.0.1 to namenode:8020 failed on connection exception: java.net.ConnectException: Connection "
    "refused; For more details see:  http://wiki.apache.org/hadoop/ConnectionRefused"
)


class SentenceTests(SynchronousTestCase):
    """``in_one_sentence``."""

    def sentence(self, location: str, kind: str, message: str) -> str:
        """Return the sentence, which has one line."""
        said = in_one_sentence(location, kind, message, "3.5.0")
        self.assertNotIn("\n", said)
        return said

    def test_a_refusal_names_user_and_access(self) -> None:
        """The name node's stack trace is left out."""
        said = self.sentence("hdfs:///logs", "org.apache.hadoop.security.AccessControlException", DENIED)
        self.assertIn("hdfs:///logs: Permission denied: user=ada, access=WRITE", said)
        self.assertIn("give that user the right there", said)
        self.assertNotIn("FSPermissionChecker", said)

    def test_a_missing_file_system_names_its_package(self) -> None:
        """The version is the one of the Hadoop that runs."""
        for kind, message in (
            ("org.apache.hadoop.fs.UnsupportedFileSystemException", 'No FileSystem for scheme "abfss"'),
            ("java.lang.NoClassDefFoundError", "org/apache/hadoop/fs/azurebfs/AzureBlobFileSystem"),
            ("java.lang.RuntimeException", "java.lang.ClassNotFoundException: Class org.x.Abfs not found"),
        ):
            said = self.sentence("abfss://c@account/logs", kind, message)
            self.assertIn("no file system for abfss://", said)
            self.assertIn("--conf spark.jars.packages=org.apache.hadoop:hadoop-azure:3.5.0", said)
        self.assertIn("GROUP:NAME:VERSION", self.sentence("viewfs://x/y", "java.lang.ClassNotFoundException", "x"))

    def test_another_error_keeps_its_reason(self) -> None:
        """The reference to Hadoop's manual is left out."""
        said = self.sentence("hdfs://namenode:8020/logs", "java.net.ConnectException", CALL)
        self.assertTrue(said.startswith("hdfs://namenode:8020/logs: ConnectException: Call From here"))
        self.assertTrue(said.endswith("Connection refused"))
        self.assertEqual(self.sentence("hdfs:///x", "java.io.IOException", ""), "hdfs:///x: IOException: ")
