"""A schema registry with the REST interface of Confluent's: schemas in the coordination tree, ids that never change."""
