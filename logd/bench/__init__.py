"""How fast logd is, as a ratio to what the machine can do: both are measured in one run, since machines are noisy."""
