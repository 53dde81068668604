"""The group of commands ``logd bench``."""
