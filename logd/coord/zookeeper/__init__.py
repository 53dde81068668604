"""A client of ZooKeeper's protocol over kazoo, entirely on the reactor except for kazoo's own thread."""
