"""Counters of a coordination server."""

from __future__ import annotations

from attrs import define, field


@define
class ServerCounters:
    """Counters since the start."""

    packets_received: int = 0
    packets_sent: int = 0
    bytes_received: int = 0
    bytes_sent: int = 0
    #: Connections accepted, refused because of their number, and closed because of a protocol violation.
    connections_accepted: int = 0
    connections_refused: int = 0
    protocol_violations: int = 0
    authentications_failed: int = 0
    sessions_opened: int = 0
    sessions_expired: int = 0
    watch_events: int = 0
    #: Latency of answers, in seconds: the maximum, the sum and the number.
    latency_longest: float = 0.0
    latency_total: float = 0.0
    answers: int = 0
    started_at: float = field(default=0.0)

    def answered(self, seconds: float) -> None:
        """Count an answer that took so many seconds."""
        self.answers += 1
        self.latency_total += seconds
        if seconds > self.latency_longest:
            self.latency_longest = seconds
