"""Real clients against real brokers: clients of 0.7, groups, TLS, losses, brokers that go away."""
