"""The answers to Fetch requests: the walk over the log, what is sent of it, and the work that all of them share."""
