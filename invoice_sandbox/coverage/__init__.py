"""What a run touched of all that a contract, a lifecycle and its scenarios declare."""
