"""A client that sends and handles messages in spans, in a process of its own: blocking ones run the reactor.

    python -m tests.integration.clients.traced_clients KIND SOURCE TARGET COUNT

Sends its kind as a message to topic ``t`` of the source, handles COUNT messages of ``t`` at the target, and writes
a line of JSON for each span: its kind, the message, the trace, the span, and the span that it continues.
"""

from __future__ import annotations

import asyncio
import json
import sys

from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from logd import Message
from logd.tracing import consumer_span, producer_span

TOPIC = "t"


def described(span: ReadableSpan, payload: str) -> str:
    """Return a line about a span."""
    assert span.context is not None
    parent = "" if span.parent is None else trace.format_span_id(span.parent.span_id)
    ids = trace.format_trace_id(span.context.trace_id), trace.format_span_id(span.context.span_id)
    return json.dumps([span.kind.name.lower(), payload, *ids, parent])


def blocking(source: str, target: str, count: int) -> list[str]:
    """Send and handle by the blocking clients; return the messages in the order of their spans."""
    from logd.client.blocking import Consumer, Producer

    with Producer(source) as producer, producer_span(TOPIC) as headers:
        producer.send(TOPIC, Message(b"blocking", headers=headers), partition=0).wait(60)
    handled = ["blocking"]
    with Consumer(target) as consumer:
        for message in consumer.create_message_streams(TOPIC, 1, start="earliest")[0]:
            with consumer_span(message, group="traced"):
                handled.append((message.payload or b"").decode())
            if len(handled) > count:
                return handled
    return handled


async def on_asyncio(source: str, target: str, count: int) -> list[str]:
    """Do the same by those for asyncio, each message in a task of its own."""
    from logd.aio import Consumer, Producer

    with producer_span(TOPIC) as headers:
        async with Producer(source) as producer:
            await producer.send(TOPIC, Message(b"aio", headers=headers), partition=0)
    handled = ["aio"]
    async with Consumer(target) as consumer, consumer.stream(TOPIC, start="earliest") as stream:
        async for message in stream:
            await asyncio.create_task(handle(message, handled))
            if len(handled) > count:
                break
    return handled


async def handle(message: Message, handled: list[str]) -> None:
    """Handle a message in a span, in several turns of the loop."""
    with consumer_span(message, group="traced") as span:
        await asyncio.sleep(0)
        assert trace.get_current_span() is span, "another task's span"
        handled.append((message.payload or b"").decode())


def main(kind: str, source: str, target: str, count: int) -> None:
    """Work, and write what the spans were."""
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    ends = (source, target, count)
    payloads = asyncio.run(on_asyncio(*ends)) if kind == "aio" else blocking(*ends)
    for span, payload in zip(exporter.get_finished_spans(), payloads, strict=True):
        print(described(span, payload))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]))
