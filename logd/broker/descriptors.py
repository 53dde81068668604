"""How many files and sockets this process may have open, and what that leaves for the log."""

from __future__ import annotations

import resource
from collections.abc import Callable

from attrs import frozen

#: Descriptors for everything else: the reactor, the log, listening sockets, threads that read and sync.
RESERVED = 128
#: With fewer than this for segments a broker would spend its time opening and closing them.
LEAST_FOR_SEGMENTS = 128
_MOST_READERS = 512
_MOST_WRITERS = 10_000


@frozen
class DescriptorLimits:
    """How many segments are kept open for reading (idle ones), and how many for appending."""

    readers: int
    writers: int


def raise_limit() -> int:
    """Raise the soft limit of open files to the hard one, which needs no privilege; return it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except (OSError, ValueError):  # some systems say "unlimited" and allow less
            return soft
    return hard if hard != resource.RLIM_INFINITY else 1 << 30


def share_out(limit: int, connections: int, warn: Callable[..., None]) -> DescriptorLimits:
    """Divide what ``connections`` leave of ``limit``; warn when that is too little."""
    left = limit - connections - RESERVED
    if left < LEAST_FOR_SEGMENTS:
        warn(
            "the limit of {limit} open files is too low for connections.max = {connections}: with {needed} or more it "
            "would do (LimitNOFILE= of a systemd unit, ulimit -Hn), or with fewer connections",
            limit=limit,
            connections=connections,
            needed=connections + RESERVED + LEAST_FOR_SEGMENTS,
        )
        left = LEAST_FOR_SEGMENTS
    readers = min(left // 4, _MOST_READERS)
    return DescriptorLimits(readers, min(left - readers, _MOST_WRITERS))
