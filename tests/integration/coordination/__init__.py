"""Real coordination servers, logd's and ZooKeeper's, and clients of them."""
