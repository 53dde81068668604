"""kcat, by its command line: KCAT in the environment is its path."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from typing import Any

from .digest import Digest, record, run, shares

_KCAT = os.environ.get("KCAT", "kcat")
#: The separators of a record's fields, which no field may contain.
_FORMAT = "%o\\t%T\\t%k\\t%s\\n"


def _lines(*arguments: str) -> Iterator[bytes]:
    with subprocess.Popen([_KCAT, "-q", *arguments], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        yield from process.stdout
    if process.returncode:
        raise RuntimeError(f"kcat {' '.join(arguments)} ended with {process.returncode}")


def produce(bootstrap: str, topic: str, count: int, codecs: str, *more: str) -> dict[str, Any]:
    """See ``digest``."""
    status = 0
    for codec, numbers in shares(count, codecs.split(",")):
        command = [_KCAT, "-q", "-P", "-b", bootstrap, "-t", topic, "-p", "0", "-K", "\\t", "-z", codec, *more]
        given = b"".join([b"%s\t%s\n" % record(number) for number in numbers])
        status |= subprocess.run(command, input=given, check=False).returncode
    return {"errors": status, "first": []}


def idempotent(bootstrap: str, topic: str, count: int, codecs: str) -> dict[str, Any]:
    """See ``digest``."""
    return produce(bootstrap, topic, count, codecs, "-X", "enable.idempotence=true")


def consume(bootstrap: str, topic: str, count: int) -> dict[str, Any]:
    """See ``digest``. It ends by itself at the end of the partition."""
    digest = Digest()
    for line in _lines("-C", "-b", bootstrap, "-t", topic, "-p", "0", "-o", "beginning", "-e", "-f", _FORMAT):
        offset, timestamp, key, value = line[:-1].split(b"\t")
        digest.add(int(offset), int(timestamp), key, value)
    return digest.result()


def look(bootstrap: str, topic: str, offset: int, milliseconds: int) -> dict[str, Any]:
    """See ``digest``."""
    (sought,) = _lines("-C", "-b", bootstrap, "-t", topic, "-p", "0", "-o", str(offset), "-c", "1", "-f", "%o\\n")
    (found,) = _lines("-Q", "-b", bootstrap, "-t", f"{topic}:0:{milliseconds}")
    return {"sought": int(sought), "found": int(found.split()[-1])}


def member(bootstrap: str, topic: str, group: str) -> None:
    """See ``digest``."""
    settings = (
        "session.timeout.ms=2000",
        "heartbeat.interval.ms=300",
        "auto.commit.interval.ms=200",
        "auto.offset.reset=earliest",
    )
    options = [part for each in settings for part in ("-X", each)]
    for line in _lines("-b", bootstrap, *options, "-u", "-f", "%s\\n", "-G", group, topic):
        print(line.split(b"-")[0].decode(), flush=True)


run(produce=produce, idempotent=idempotent, consume=consume, look=look, member=member)
