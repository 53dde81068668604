"""Tests of logd.tracing, with OpenTelemetry's own SDK."""

from __future__ import annotations

from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from twisted.trial.unittest import SynchronousTestCase

from logd.protocol import loops
from logd.protocol.message import Message
from logd.tracing import consumer_span, producer_span, trace_of


class TracingTests(SynchronousTestCase):
    """Spans, and the headers between them."""

    def setUp(self) -> None:
        """Keep spans in memory. The provider of a process is set once, so others' spans may be there too."""
        self.exporter = InMemorySpanExporter()
        provider = trace.get_tracer_provider()
        if not isinstance(provider, TracerProvider):
            provider = TracerProvider()
            trace.set_tracer_provider(provider)
        provider.add_span_processor(SimpleSpanProcessor(self.exporter))

    def spans(self) -> dict[str, ReadableSpan]:
        """Return the spans that have ended, by their names."""
        return {span.name: span for span in self.exporter.get_finished_spans()}

    def sent(self, *headers: tuple[str, bytes | None]) -> Message:
        """Send a message in a span, and read it back from its bytes."""
        with producer_span("clicks", headers) as carried:
            data = loops.encode_set([Message(b"hello", headers=carried)])
        (message,) = loops.decode_set(data, topic="clicks", partition=3).messages
        return message

    def test_a_trace_crosses_the_log(self) -> None:
        """The span that handles a message is a child of the one that sent it."""
        with consumer_span(self.sent(), group="reports"):
            pass
        spans = self.spans()
        sender, handler = spans["send clicks"], spans["process clicks"]
        assert sender.context is not None and handler.context is not None and handler.parent is not None
        self.assertEqual(handler.context.trace_id, sender.context.trace_id)
        self.assertEqual(handler.parent.span_id, sender.context.span_id)
        self.assertEqual((sender.kind, handler.kind), (trace.SpanKind.PRODUCER, trace.SpanKind.CONSUMER))
        attributes = dict(handler.attributes or {})
        self.assertEqual(attributes["messaging.system"], "logd")
        self.assertEqual(attributes["messaging.destination.partition.id"], "3")
        self.assertEqual(attributes["messaging.consumer.group.name"], "reports")
        self.assertEqual(attributes["messaging.message.body.size"], 5)

    def test_own_headers_stay_and_an_earlier_trace_is_replaced(self) -> None:
        """A message that is sent on belongs to the new span."""
        first = self.sent(("server", b"a"))
        with consumer_span(first):
            second = self.sent(*first.headers)
        self.assertEqual([name for name, _ in second.headers], ["server", "traceparent"])
        self.assertNotEqual(trace_of(first), trace_of(second))
        self.assertEqual(trace_of(first)["traceparent"].split("-")[1], trace_of(second)["traceparent"].split("-")[1])

    def test_headers_that_are_no_trace_begin_a_new_one(self) -> None:
        """Whatever bytes they have."""
        for value in (b"\xff", b"", b"00-zz-1-1", None):
            with consumer_span(Message(b"", headers=(("traceparent", value),))) as span:
                self.assertTrue(span.get_span_context().is_valid)
        self.assertEqual([span.parent for span in self.exporter.get_finished_spans()], [None] * 4)

    def test_an_error_is_in_the_span(self) -> None:
        """And goes on to the caller."""
        with self.assertRaises(ZeroDivisionError), consumer_span(Message(b"")):
            raise ZeroDivisionError
        self.assertFalse(self.spans()["process"].status.is_ok)
