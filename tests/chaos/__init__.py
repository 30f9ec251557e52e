"""Faults of servers and databases while clients write."""
