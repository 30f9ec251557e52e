"""Outgoing webhooks: how they are signed, and which addresses they may go to."""
