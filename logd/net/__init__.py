"""Network connections: servers and clients over Twisted, what connections may cost, and file ranges by sendfile."""
