"""A ZooKeeper server of one node: its protocol on Twisted, over the tree, durable in a directory."""
