"""The official test suite of JSON Schema 2020-12, played over HTTP in both directions."""
