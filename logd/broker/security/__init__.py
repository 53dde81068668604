"""The user behind a request, and the right to have it served."""
