"""The result of a comparison, for people: tables, figures, and the pages of the documents."""
