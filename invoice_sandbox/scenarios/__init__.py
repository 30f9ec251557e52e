"""Scenarios and lifecycles: how things move over time."""
