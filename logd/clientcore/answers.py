"""Checks of a broker's answers: whether an answer matches its request, and whether an error is final."""

from __future__ import annotations

from typing import TypeGuard

from logd.errors import WireError
from logd.protocol.requests.describe_log import DescribeLog, DescribeLogResponse
from logd.protocol.requests.fetch_wait import FetchWait, FetchWaitResponse
from logd.protocol.requests.produce_ack import ProduceAck, ProduceAckResponse
from logd.protocol.requests.requests import NativeRequest
from logd.protocol.requests.responses import Response


def is_final(error: BaseException | None) -> TypeGuard[WireError]:
    """Return whether the same request would fail again: a broker has refused it, and not for the moment."""
    return isinstance(error, WireError) and not error.retriable


def misfit(request: NativeRequest, response: Response) -> str:
    """Return the mismatch between a response and its request as text; empty when they match.

    A broken broker, or another program, must not pass for a broker. Users of a checked response may rely on a part for
    each part asked for, in order, and on bytes from the requested position.
    """
    if isinstance(request, ProduceAck) and isinstance(response, ProduceAckResponse):
        if [part[:2] for part in response.parts] != [part[:2] for part in request.parts]:
            return "it acknowledges other partitions than it was sent messages for"
        return ""
    if isinstance(request, FetchWait) and isinstance(response, FetchWaitResponse):
        return _fetch_misfit(request, response)
    if isinstance(request, DescribeLog) and isinstance(response, DescribeLogResponse) and not response.error:
        found, wanted = len(response.boundaries), len(request.positions)
        return f"it has {found} boundaries for {wanted} positions" if found != wanted else ""
    return ""


def _fetch_misfit(request: FetchWait, response: FetchWaitResponse) -> str:
    if [part[:2] for part in response.parts] != [part[:2] for part in request.parts]:
        return "it has other partitions than were asked for"
    for part, asked in zip(response.parts, request.parts, strict=True):
        if part.error or not len(part.message_set):
            continue
        # Further on, messages would be skipped unseen. If exact, any other position would not fit to the last answer.
        if part.first_position > asked.offset or (asked.exact and part.first_position != asked.offset):
            return f"it begins at {part.first_position} in place of {asked.offset}"
    return ""
