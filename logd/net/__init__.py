"""Network connections over Twisted: servers, clients, limits on connections, and file ranges by sendfile."""
