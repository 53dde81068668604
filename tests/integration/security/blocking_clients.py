"""Blocking clients with users, in a process of their own: they run the reactor, which a test's process needs."""

from __future__ import annotations

import sys

from logd.client.blocking import Consumer, Producer
from logd.errors import AuthenticationFailed, TopicAuthorizationFailed


def use_rights(address: str, user: str, password: str) -> None:
    """Read what may be read, be refused what may not be written, and be refused with wrong users."""
    with Consumer(address, user=user, password=password) as consumer:
        message = next(iter(consumer.create_message_streams("t", 1, start="earliest")[0]))
        assert message.payload == b"hello", message
    with Producer(address, user=user, password=password) as producer:
        try:
            producer.send("t", b"not allowed").wait(100)
        except TopicAuthorizationFailed:
            print("not allowed")
    for name, wrong in ((user, "wrong"), ("bob", "x")):
        try:
            with Producer(address, user=name, password=wrong) as producer:
                producer.send("t", b"x").wait(100)
        except AuthenticationFailed:
            print("not proved")


def read_until_cut_off(address: str, user: str, password_file: str) -> None:
    """Read one message, say so, and wait for the next until the user is cut off."""
    with Consumer(address, user=user, password_file=password_file) as consumer:
        messages = iter(consumer.create_message_streams("t", 1, start="earliest")[0])
        next(messages)
        print("reading", flush=True)
        try:
            next(messages)
        except AuthenticationFailed:
            print("cut off")


if __name__ == "__main__":
    {"rights": use_rights, "cut": read_until_cut_off}[sys.argv[1]](*sys.argv[2:])
