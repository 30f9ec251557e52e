"""A request, from its route to its response; start reading in ``respond``."""
