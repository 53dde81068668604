"""Producer and Consumer for code that blocks: scripts, notebooks, threads."""

from logd.client.blocking.clients import Consumer, Producer, SendResult

__all__ = ["Consumer", "Producer", "SendResult"]
