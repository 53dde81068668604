"""A ZooKeeper server of one node: its protocol on Twisted, over the durable tree in a directory."""
