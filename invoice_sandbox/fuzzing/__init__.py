"""Fuzzing of a sandbox against its own contracts, with Schemathesis.

``command`` starts a server and runs Schemathesis, which loads ``hooks``. Nothing here depends on a
particular API: the contract has what a fuzzer must know about an operation, in ``x-fuzz-setup``,
``x-fuzz-unreachable``, ``x-fuzz-forgets`` and ``x-fuzz-shared``.
"""
