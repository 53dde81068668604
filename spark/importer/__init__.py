"""``logd import``: loads a topic's new messages into files; one rename makes data and offsets visible."""
