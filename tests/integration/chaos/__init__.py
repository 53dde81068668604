"""A cluster of real processes under load while a seed decides what is killed, paused and started again."""
