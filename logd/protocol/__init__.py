"""Bytes to objects and back, sans-IO: messages, sets, codecs, requests, framing, one connection's conversation.

Nothing here knows of sockets, files, threads or time: bytes go in and objects come out, so that the broker, the Twisted
clients and a blocking reader use the same code. The layouts are in docs/protocol.md.
"""
