"""Fuzzing of a running sandbox against its own contracts, with Schemathesis.

``command`` creates workspaces, runs Schemathesis on them and judges the record; Schemathesis loads
``hooks``. Nothing here depends on a particular API: the contract has what a fuzzer must know about
an operation, in ``x-fuzz-setup``, ``x-fuzz-unreachable`` and ``x-fuzz-forgets``.
"""
