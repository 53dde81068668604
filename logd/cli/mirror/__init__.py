"""``logd mirror``: copies topics between clusters, and shows and uses what mirrors have stored."""
