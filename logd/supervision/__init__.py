"""Tells the program that supervises this process, systemd or another, how the process is."""
