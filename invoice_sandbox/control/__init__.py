"""The control API under ``/sandbox``, described in ``openapi.yaml`` beside this, and its client.

Each module has the functions of a tag, one per operation; ``functions`` finds them. A control
function works on whole workspaces, so it is given the engine instead of a transaction. Like a
handler it returns data or a response, and raises ApiError.

Nothing is imported here: the command line and the pytest plugin need only ``client``.
"""
