"""pika, RabbitMQ's client for Python: a durable queue, persistent messages, publisher confirms."""

from __future__ import annotations

from typing import Any

from logd.bench.systems.client_main import run_client
from logd.bench.systems.load import Load, Stopwatch
from logd.errors import LogdError

#: Messages that the node may send before earlier ones are acknowledged.
PREFETCH = 1000


def _open(address: str) -> Any:
    import pika

    host, port = address.split(":")
    return pika.BlockingConnection(pika.ConnectionParameters(host, int(port)))


def produce(address: str, load: Load, option: str, watch: Stopwatch) -> None:
    """See client_main: with batch 1, the confirm of each message is awaited before the next.

    The blocking connection cannot await several confirms, so other batches have none: the load ends with the answer to
    a call on the same channel, which the node sends only after it has handled everything published before.
    """
    from pika import BasicProperties

    connection = _open(address)
    channel = connection.channel()
    channel.queue_declare(load.topic, durable=True)
    persistent = BasicProperties(delivery_mode=2)
    if load.batch <= 1:
        channel.confirm_delivery()
        watch.start()
        for payload in load.payloads():
            channel.basic_publish("", load.topic, payload, persistent)
        watch.stop(load.messages)
    else:
        watch.start()
        for number, payload in enumerate(load.payloads()):
            channel.basic_publish("", load.topic, payload, persistent)
            if number % load.batch == 0:
                connection.process_data_events(0)
        # A synchronous call on the same channel is answered only after everything published before it was handled.
        ready = channel.queue_declare(load.topic, durable=True, passive=True).method.message_count
        watch.stop(load.messages)
        if ready > load.messages:
            raise LogdError(f"{ready} messages are in the queue, but only {load.messages} were published")
    connection.close()


def consume(address: str, load: Load, option: str, watch: Stopwatch) -> None:
    """See client_main: pushed messages, acknowledged a hundred at a time."""
    connection = _open(address)
    channel = connection.channel()
    channel.queue_declare(load.topic, durable=True)
    channel.basic_qos(prefetch_count=PREFETCH)
    watch.start()
    count = 0
    for method, _, payload in channel.consume(load.topic):
        count += 1
        if load.rate:
            watch.note(payload)
        if count % 100 == 0 or count == load.messages:
            channel.basic_ack(method.delivery_tag, multiple=True)
        if count == load.messages:
            break
    watch.stop(count)
    channel.cancel()
    connection.close()


if __name__ == "__main__":
    run_client(produce, consume)
