"""The topic of the log of administration, which ``logd.broker.security`` keeps."""
