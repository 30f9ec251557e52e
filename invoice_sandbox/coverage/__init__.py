"""Coverage of everything that a contract, a lifecycle and its scenarios declare."""
