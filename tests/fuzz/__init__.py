"""Fuzzing of the running sandbox with Schemathesis, and a verdict on what was answered."""
