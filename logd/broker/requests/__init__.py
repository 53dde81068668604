"""Request handlers, one for each kind of request, and their shared parts."""
