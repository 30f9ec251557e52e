"""Faults of servers and databases, while clients write and scenarios run.

``make chaos`` tries every fault of ``tests.chaos.faults`` and writes the table of
``docs/durability.md``; CI runs a few rounds of it. ``tests.chaos.judge`` checks what must hold.
"""
