"""Reduces Spark's report of a failure, with stack traces of two languages, to one error in one sentence."""

from __future__ import annotations

import re

from logd.errors import BrokerUnavailable, CannotConnect, ConfigurationError, LogdError
from logd.spark.blocking.reading import DataLost
from logd.spark.importer.errors import ImportFailed
from logd.spark.importer.targets.hadoop_errors import in_one_sentence

#: The form of a logd error in Spark's report of a failed task.
_OURS = re.compile(r"^logd\.[\w.]*?(\w+): (.*)$", re.M)
#: The last line of a Python traceback, which names the exception.
_RAISED = re.compile(r"^.*Traceback \(most recent call last\):\n(?:[ \t].*\n|\n)*(\S.*)$", re.M)
#: py4j's line about the call that failed, before the reason of Java's exception.
_CAUSE = re.compile(r"^Caused by: (.*)$", re.M)
_CALL = re.compile(r"\AAn error occurred while calling \S+\n: ")


def explained(error: Exception, what: str) -> LogdError:
    """Return the logd error that failed a task, or the reason of Spark, Java or Python. ``what`` names the failure."""
    text = _text(error)
    ours = _OURS.findall(text)
    if ours:
        name, said = ours[-1]
        kinds: dict[str, type[LogdError]] = {
            each.__name__: each for each in (BrokerUnavailable, CannotConnect, ConfigurationError, DataLost)
        }
        return kinds.get(name, ImportFailed)(f"{what}: {said}")
    raised = _RAISED.findall(text)
    causes = _CAUSE.findall(text)
    lines = [line.strip() for line in _CALL.sub("", text).splitlines() if line.strip()]
    reason = next(iter((*raised[-1:], *causes[-1:], *lines[:1])), type(error).__name__)
    kind, _, said = reason.partition(": ")
    if "AccessControlException" in kind:  # alone or within a RemoteException
        return ImportFailed(in_one_sentence(what, "AccessControlException", said))
    return ImportFailed(f"{what} in Spark: {reason.rstrip(';')}")


def _text(error: Exception) -> str:
    try:
        return str(error)
    except Exception as lost:  # py4j asks the JVM for the text, and the JVM may have ended
        return f"its JVM has ended ({lost})"
