"""Users, rights and what protects them, with real processes, sockets and clients."""
