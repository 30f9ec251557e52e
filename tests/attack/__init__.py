"""What hostile clients send, as data, and what it may cost a server."""
