"""stomp.py, the usual Python client of ActiveMQ: a queue with persistent messages, and receipts."""

from __future__ import annotations

import threading
from itertools import islice
from typing import Any

from attrs import define, field

from logd.bench.systems.client_main import run_client
from logd.bench.systems.load import PATIENCE_SECONDS, Load, Stopwatch
from logd.errors import LogdError

#: Messages that the broker may send before earlier ones are acknowledged.
PREFETCH = 1000
#: Messages read before an acknowledgement, which covers all before it.
ACKNOWLEDGED = 100
#: Messages sent before a receipt is asked for, and receipts outstanding, where the batch is left to the client.
RECEIPT_EVERY, RECEIPTS = 100, 10


@define(eq=False)
class _Receipts:
    """Waits until at most some of the receipts that were asked for are outstanding; hears of errors."""

    asked: int = 0
    _received: int = field(default=0, init=False)
    _errors: list[str] = field(factory=list, init=False)
    _changed: threading.Condition = field(factory=threading.Condition, init=False)

    def ask(self) -> str:
        """Return the id of the next receipt."""
        self.asked += 1
        return str(self.asked)

    def wait(self, outstanding: int = 0) -> None:
        """Block. Raises LogdError for an error of the broker, or when no receipt comes."""
        with self._changed:
            if not self._changed.wait_for(
                lambda: self._errors or self.asked - self._received <= outstanding, PATIENCE_SECONDS
            ):
                raise LogdError(f"a receipt of ActiveMQ did not come in {PATIENCE_SECONDS:g} s")
        if self._errors:
            raise LogdError(f"ActiveMQ answered with an error: {self._errors[0]}")

    def on_receipt(self, frame: Any) -> None:
        """See stomp.ConnectionListener."""
        with self._changed:
            self._received += 1
            self._changed.notify_all()

    def on_error(self, frame: Any) -> None:
        """See stomp.ConnectionListener."""
        self._fail(str(frame.headers.get("message", frame.body)))

    def on_disconnected(self) -> None:
        """See stomp.ConnectionListener."""
        self._fail("the connection was closed")

    def _fail(self, text: str) -> None:
        with self._changed:
            self._errors.append(text)
            self._changed.notify_all()


@define(eq=False)
class _StompReader:
    """Counts messages in the client's own thread, and acknowledges them."""

    connection: Any
    load: Load
    watch: Stopwatch
    everything: threading.Event = field(factory=threading.Event, init=False)
    count: int = field(default=0, init=False)

    def on_message(self, frame: Any) -> None:
        """See stomp.ConnectionListener."""
        self.count += 1
        if self.load.rate:
            self.watch.note(frame.body)
        if self.count % ACKNOWLEDGED == 0 or self.count == self.load.messages:
            self.connection.ack(frame.headers["ack"])
        if self.count == self.load.messages:
            self.watch.stop(self.count)
            self.everything.set()


def _open(address: str, listener: Any) -> Any:
    import stomp

    host, port = address.split(":")
    connection = stomp.Connection12([(host, int(port))], auto_decode=False)
    if listener is not None:
        connection.set_listener("bench", listener)
    connection.connect(wait=True)
    return connection


def produce(address: str, load: Load, option: str, watch: Stopwatch) -> None:
    """See client_main: with batch 1 the receipt of each message is awaited, other batches are transactions.

    By default a receipt is asked for every RECEIPT_EVERY messages; STOMP handles frames of a connection in order.
    """
    receipts = _Receipts()
    connection = _open(address, receipts)
    place, send = f"/queue/{load.topic}", connection.send
    persistent = {"persistent": "true"}
    payloads = load.payloads()
    watch.start()
    if load.batch == 1:
        for payload in payloads:
            send(place, payload, headers={**persistent, "receipt": receipts.ask()})
            receipts.wait()
    elif load.batch:
        while some := list(islice(payloads, load.batch)):
            transaction = connection.begin()
            headers = {**persistent, "transaction": transaction}
            for payload in some:
                send(place, payload, headers=headers)
            connection.commit(transaction, receipt=receipts.ask())
            receipts.wait(RECEIPTS)
    else:
        for number, payload in enumerate(payloads, 1):
            if number % RECEIPT_EVERY and number != load.messages:
                send(place, payload, headers=persistent)
            else:
                send(place, payload, headers={**persistent, "receipt": receipts.ask()})
                receipts.wait(RECEIPTS)
    receipts.wait()
    watch.stop(load.messages)
    connection.remove_listener("bench")
    connection.disconnect()


def consume(address: str, load: Load, option: str, watch: Stopwatch) -> None:
    """See client_main: pushed messages, acknowledged ACKNOWLEDGED at a time."""
    connection = _open(address, None)
    reader = _StompReader(connection, load, watch)
    connection.set_listener("bench", reader)
    watch.start()
    connection.subscribe(f"/queue/{load.topic}", id="1", ack="client", headers={"activemq.prefetchSize": str(PREFETCH)})
    if not reader.everything.wait(PATIENCE_SECONDS):
        raise LogdError(f"only {reader.count} of {load.messages} messages came in {PATIENCE_SECONDS:g} s")
    connection.disconnect()


if __name__ == "__main__":
    run_client(produce, consume)
