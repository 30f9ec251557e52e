"""Fuzzing of a running sandbox against its own contracts, with Schemathesis.

``command`` makes workspaces, starts Schemathesis on them and judges what it wrote down; ``hooks``
is what Schemathesis loads. Nothing here knows of any particular API: what a fuzzer has to be told
of an operation stands in its contract, in ``x-fuzz-setup`` and ``x-fuzz-unreachable``.
"""
