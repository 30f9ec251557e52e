"""Attacks on a running server, kept as a regression: ``make attack``."""
