"""``logd audit``: reads the counts of topic ``_audit``, and says what is missing."""
