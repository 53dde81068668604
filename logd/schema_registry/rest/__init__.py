"""The REST interface of Confluent's Schema Registry: routes, bodies, answers, and the resource of twisted.web."""
