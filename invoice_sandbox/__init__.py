"""A contract-first sandbox: an OpenAPI 3.1 document, served with state, time and faults.

The engine in this package knows contracts, workspaces and credentials. What the served API is
about (its contract, handlers, fixtures and scenarios) lives in the project folder it is given.
"""

__version__ = "0.1.0"
