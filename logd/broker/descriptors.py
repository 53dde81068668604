"""The limit of open files of this process, and its division between connections and segments."""

from __future__ import annotations

import resource
from collections.abc import Callable

from attrs import frozen

#: Descriptors reserved for the rest: the reactor, the log, listening sockets, threads that read and sync.
RESERVED = 128
#: The least number for segments: with fewer, a broker would spend its time opening and closing them.
LEAST_FOR_SEGMENTS = 128
#: The most connections with the pages (http) of one server.
PAGE_CONNECTIONS = 500
_MOST_READERS = 512
_MOST_WRITERS = 10_000


@frozen
class DescriptorLimits:
    """The numbers of segments that are kept open for reading (idle ones) and for appending."""

    readers: int
    writers: int


def raise_limit() -> int:
    """Raise the soft limit of open files to the hard limit, which needs no privilege. Return the limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except (OSError, ValueError):  # some systems say "unlimited" and allow less
            return soft
    return hard if hard != resource.RLIM_INFINITY else 1 << 30


def share_out(limit: int, connections: int, warn: Callable[..., None], pages: int = 0) -> DescriptorLimits:
    """Divide the descriptors that ``connections``, and those of pages, leave of ``limit``; warn if they are too few."""
    left = limit - connections - pages - RESERVED
    if left < LEAST_FOR_SEGMENTS:
        warn(
            "the limit of {limit} open files is too low for connections.max = {connections}: raise it to {needed} or "
            "more (LimitNOFILE= in a systemd unit, ulimit -Hn), or lower connections.max",
            limit=limit,
            connections=connections,
            needed=connections + pages + RESERVED + LEAST_FOR_SEGMENTS,
        )
        left = LEAST_FOR_SEGMENTS
    readers = min(left // 4, _MOST_READERS)
    return DescriptorLimits(readers, min(left - readers, _MOST_WRITERS))
