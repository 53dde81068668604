"""Spans of OpenTelemetry around sending and handling messages (the extra ``tracing``).

A trace crosses the log in the headers ``traceparent`` and ``tracestate`` of messages (W3C Trace Context). Brokers,
mirrors and dead letters keep headers as they are, so a trace goes wherever the message goes. A span is asked for, so
nothing is imported and nothing is paid where none is wanted::

    with producer_span("clicks") as headers:
        await producer.send("clicks", Message(payload, headers=headers))

    async for message in stream:
        with consumer_span(message, group="reports"):
            handle(message)

Names and attributes are those of OpenTelemetry's conventions for messaging.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from logd.protocol.message import Message
from logd.protocol.optional_packages import needing

#: The headers that carry a trace.
TRACE_HEADERS = ("traceparent", "tracestate")
_SYSTEM = "logd"

Headers = tuple[tuple[str, bytes | None], ...]


@contextmanager
def producer_span(topic: str, headers: Sequence[tuple[str, bytes | None]] = (), **attributes: Any) -> Iterator[Headers]:
    """Run the body in a span that sends to ``topic``; yield the headers for its messages, after ``headers``.

    Headers of an earlier trace among them are replaced, as the message goes on from here. An exception of the body is
    recorded in the span. Raises MissingPackage without OpenTelemetry.
    """
    trace, propagate = _packages()
    given = {"messaging.operation.type": "send", "messaging.destination.name": topic, **attributes}
    with _span(trace, f"send {topic}", trace.SpanKind.PRODUCER, None, given):
        carrier: dict[str, str] = {}
        propagate.inject(carrier)
        kept = [(name, value) for name, value in headers if name not in carrier and name not in TRACE_HEADERS]
        yield (*kept, *((name, value.encode()) for name, value in carrier.items()))


@contextmanager
def consumer_span(message: Message, group: str = "", **attributes: Any) -> Iterator[Any]:
    """Run the body in a span that handles a message, behind the span that sent it; yield the span.

    An exception of the body is recorded in it. Raises MissingPackage without OpenTelemetry.
    """
    trace, propagate = _packages()
    context = propagate.extract(trace_of(message))
    given = {
        "messaging.operation.type": "process",
        "messaging.destination.name": message.topic or "",
        "messaging.destination.partition.id": str(message.partition),
        "messaging.message.id": str(message.id),
        "messaging.message.body.size": len(message.payload or b""),
        **({"messaging.consumer.group.name": group} if group else {}),
        **attributes,
    }
    with _span(trace, f"process {message.topic or ''}".rstrip(), trace.SpanKind.CONSUMER, context, given) as span:
        yield span


def trace_of(message: Message) -> dict[str, str]:
    """Return the trace headers of a message as text; those that are no text are left out."""
    found = {}
    for name, value in message.headers:
        if name in TRACE_HEADERS and value is not None:
            try:
                found[name] = value.decode("ascii")
            except UnicodeDecodeError:
                continue
    return found


def _packages() -> tuple[Any, Any]:
    with needing("opentelemetry", "tracing"):
        from opentelemetry import propagate, trace
    return trace, propagate


@contextmanager
def _span(trace: Any, name: str, kind: Any, context: Any, attributes: Mapping[str, Any]) -> Iterator[Any]:
    tracer = trace.get_tracer("logd")
    given = {"messaging.system": _SYSTEM, **attributes}
    with tracer.start_as_current_span(name, context=context, kind=kind, attributes=given) as span:
        yield span
