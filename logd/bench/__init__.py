"""Measures logd's speed as a ratio to the machine's limit, both in one run, since machines are noisy."""
