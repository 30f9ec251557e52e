"""Outgoing webhooks: subscriptions, signatures, retries, and the addresses that may be called.

``outbox`` creates a delivery for each event and endpoint, ``lanes`` runs the deliveries of an
endpoint one after the other, ``attempts`` prepares one attempt and evaluates its response, and
``sender`` sends it.
"""
