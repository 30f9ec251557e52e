"""Outgoing webhooks: who gets which event, how it is signed, when it is tried, where it may go.

``outbox`` turns an event into deliveries, ``attempts`` says what one attempt sends and what its
answer means, ``sender`` sends it, and ``lanes`` does that for each endpoint in turn.
"""
