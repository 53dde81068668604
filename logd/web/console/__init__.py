"""The console: pages for people who want to see what a cluster does, served by any broker at /console."""
