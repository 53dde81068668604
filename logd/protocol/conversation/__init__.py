"""Conversations: the protocols of one connection, on the server's and the client's side, without I/O."""
