"""The protocol without I/O: messages, sets, codecs, requests, framing, and the conversation of one connection.

Nothing here uses sockets, files, threads or time. Bytes go in and objects come out, so the broker, the Twisted clients
and a blocking reader share this code. The layouts are in docs/protocol.md.
"""
