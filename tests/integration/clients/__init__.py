"""Real clients against real brokers: old ones, groups, losses, brokers that go away."""
