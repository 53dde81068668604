"""Running servers: supervisors, and several versions side by side."""
