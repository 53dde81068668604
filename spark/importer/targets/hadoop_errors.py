"""Converts exceptions of Hadoop's file systems to one sentence with a remedy."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

#: The artefact with a scheme's file system, of Hadoop's own version; HDFS is in Spark's jars.
_PACKAGES = {"abfs": "hadoop-azure", "abfss": "hadoop-azure"}

_NOT_THERE = ("UnsupportedFileSystemException", "ClassNotFoundException", "NoClassDefFoundError")
#: The text that Hadoop appends to its reason.
_MORE = re.compile(r";? For more details see:.*")


def in_one_sentence(location: str, kind: str, message: str, version: str = "VERSION") -> str:
    """Return the error at ``location`` for an exception of the class ``kind``.

    ``version`` is Hadoop's, for the name of a package that is missing.
    """
    lines = (message or "").splitlines() or [""]
    said = _MORE.sub("", lines[0]).strip()
    if kind.endswith("AccessControlException") or said.startswith("Permission denied"):
        return (
            f"{location}: {said}: give that user the right there, or name a directory that it may write to "
            "(without Kerberos HADOOP_USER_NAME says which user one is)"
        )
    if kind.endswith(_NOT_THERE) or (kind.endswith("RuntimeException") and "ClassNotFoundException" in said):
        scheme = urlsplit(location).scheme
        package = f"org.apache.hadoop:{_PACKAGES[scheme]}:{version}" if scheme in _PACKAGES else "GROUP:NAME:VERSION"
        return (
            f"{location}: Spark's jars have no file system for {scheme}://: --conf spark.jars.packages={package} "
            "brings it from a repository, --conf spark.jars=FILE,... from files"
        )
    return f"{location}: {kind.rpartition('.')[2]}: {said}"
