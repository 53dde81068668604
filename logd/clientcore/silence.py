"""The times at which a client asks another broker who leads, while a leader leaves its request unanswered.

A machine that loses its power closes no connection, and neither does a broker that is stopped or cut off from the
network.
"""

from __future__ import annotations

#: Seconds without an answer until the first check. A broker that is merely slow seldom needs so long, and the session
#: of a dead one lasts longer (``zookeeper.session.ms``, 6 s).
FIRST_SECONDS = 2.5
#: Seconds from one check to the next, at least. A leader is elected when the session has ended, so that one of the
#: checks finds it within ten seconds of the death.
AGAIN_SECONDS = 2.0
#: The same as a share of the time without an answer: a request that waits for 30 seconds costs eight checks.
AGAIN_SHARE = 0.25


def until_next_check(waited: float) -> float:
    """Return the seconds from a check that was made after ``waited`` seconds to the next one."""
    return max(AGAIN_SECONDS, AGAIN_SHARE * waited)
