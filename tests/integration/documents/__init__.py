"""README and docs: followed literally, and built as a site."""
