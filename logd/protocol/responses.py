"""All responses: whole frames from objects, and objects from whole frames.

response of 0.7   int32 size | int16 error | body
response of ours  int32 size | int32 correlation id | int16 error | body, or str text where error is not 0
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import Any, NamedTuple

from logd.protocol import administration, describe_log, fetch_wait, metadata, produce_ack, repair
from logd.protocol.administration import CreateTopic, CreateTopicResponse, DeleteTopic, DeleteTopicResponse
from logd.protocol.describe_log import DescribeLog, DescribeLogResponse
from logd.protocol.fetch_wait import FetchWait, FetchWaitResponse
from logd.protocol.fields import INT16, Reader, encode_text, shorten_text
from logd.protocol.legacy_requests import Fetch, LegacyRequest, MultiFetch
from logd.protocol.legacy_responses import (
    LegacyResponse,
    read_fetch_response,
    read_multi_fetch_response,
    read_offsets_response,
)
from logd.protocol.metadata import Metadata, MetadataResponse
from logd.protocol.produce_ack import ProduceAck, ProduceAckResponse
from logd.protocol.repair import Repair, RepairResponse
from logd.protocol.requests import OurRequest

_HEAD = Struct(">iih")


class ErrorResponse(NamedTuple):
    """The answer to a request of ours that was refused as a whole: a code, and what to tell people about it."""

    error: int
    text: str = ""


OurResponse = (
    MetadataResponse
    | ProduceAckResponse
    | FetchWaitResponse
    | CreateTopicResponse
    | DeleteTopicResponse
    | DescribeLogResponse
    | RepairResponse
    | ErrorResponse
)
Response = LegacyResponse | OurResponse

_ENCODERS: dict[type, Callable[[Any], list[bytes]]] = {
    MetadataResponse: metadata.encode_metadata_response,
    ProduceAckResponse: produce_ack.encode_produce_ack_response,
    FetchWaitResponse: fetch_wait.encode_fetch_wait_response,
    CreateTopicResponse: administration.encode_create_topic_response,
    DeleteTopicResponse: administration.encode_delete_topic_response,
    DescribeLogResponse: describe_log.encode_describe_log_response,
    RepairResponse: repair.encode_repair_response,
}
_READERS: dict[type, Callable[[Reader], OurResponse]] = {
    Metadata: metadata.read_metadata_response,
    ProduceAck: produce_ack.read_produce_ack_response,
    FetchWait: fetch_wait.read_fetch_wait_response,
    CreateTopic: administration.read_create_topic_response,
    DeleteTopic: administration.read_delete_topic_response,
    DescribeLog: describe_log.read_describe_log_response,
    Repair: repair.read_repair_response,
}


def encode_response(response: OurResponse, correlation_id: int) -> list[bytes]:
    """Return a whole frame of ours in pieces; message sets in it are not copied."""
    if response.error:
        text = getattr(response, "text", "")
        pieces = [encode_text(shorten_text(text))]
    else:
        pieces = _ENCODERS[type(response)](response)
    return [_HEAD.pack(6 + sum(map(len, pieces)), correlation_id, response.error), *pieces]


def read_response(request: OurRequest, reader: Reader) -> OurResponse:
    """Read the answer to ``request`` from its error code on; raise ProtocolViolation where lengths do not add up."""
    (error,) = reader.unpack(INT16)
    response = _refusal(request, error, reader.text()) if error else _READERS[type(request)](reader)
    reader.finish()
    return response


def _refusal(request: OurRequest, error: int, text: str) -> OurResponse:
    if isinstance(request, CreateTopic):
        return CreateTopicResponse(error, text=text)
    if isinstance(request, DeleteTopic):
        return DeleteTopicResponse(error, text)
    if isinstance(request, DescribeLog):
        return DescribeLogResponse(error, text=text)
    if isinstance(request, Repair):
        return RepairResponse(error, text=text)
    return ErrorResponse(error, text)


def read_legacy_response(request: LegacyRequest, reader: Reader) -> LegacyResponse:
    """Read the answer to a request of 0.7 that has one; raise ProtocolViolation where lengths do not add up."""
    if isinstance(request, Fetch):
        return read_fetch_response(reader)
    if isinstance(request, MultiFetch):
        return read_multi_fetch_response(reader, len(request.fetches))
    return read_offsets_response(reader)
