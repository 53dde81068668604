"""A client of ZooKeeper's protocol over kazoo: all of it on the reactor, but kazoo's own thread."""
