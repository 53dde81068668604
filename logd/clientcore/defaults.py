"""Durations and sizes that every client uses unless its settings say otherwise."""

from __future__ import annotations

#: Seconds that one attempt to connect may take.
CONNECT_TIMEOUT = 10.0
#: Seconds to wait for an answer before the connection is closed.
REQUEST_TIMEOUT = 30.0
#: Seconds before the second attempt at any operation that failed, and the limit of their doubling.
RETRY_DELAY = 0.1
RETRY_DELAY_LIMIT = 5.0
#: Seconds without progress after which messages that cannot be delivered, or read, are given up.
DELIVERY_TIMEOUT = 120.0
#: Bytes of a batch of messages of one partition.
BATCH_BYTES = 1 << 20
#: Largest accepted entry, in bytes; a greater length counts as damage.
ENTRY_BYTES = 16 << 20
#: Further fetches of a damaged entry.
CORRUPT_RETRIES = 2
