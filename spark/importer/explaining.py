"""What Spark says of a failure, pages of two languages' stack traces, as one error of ours in one sentence."""

from __future__ import annotations

import re

from logd.errors import BrokerUnavailable, CannotConnect, ConfigurationError, LogdError
from logd.spark.blocking.reading import DataLost
from logd.spark.importer.errors import ImportFailed
from logd.spark.importer.targets.hadoop_errors import in_one_sentence

#: How an error of ours looks in what Spark says of a failed task.
_OURS = re.compile(r"^logd\.[\w.]*?(\w+): (.*)$", re.M)
#: The last line of a Python traceback, which says what was raised.
_RAISED = re.compile(r"^.*Traceback \(most recent call last\):\n(?:[ \t].*\n|\n)*(\S.*)$", re.M)
#: What Java's exception was thrown for, and before that py4j's remark on which call it was.
_CAUSE = re.compile(r"^Caused by: (.*)$", re.M)
_CALL = re.compile(r"\AAn error occurred while calling \S+\n: ")


def explained(error: Exception, what: str) -> LogdError:
    """An error of ours that a task died of, or what Spark, Java or Python say as its reason; ``what`` failed."""
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
    except Exception as lost:  # py4j asks the Java for the text, which may be what has ended
        return f"its Java has ended ({lost})"
