"""The console at ``/console``: pages that show one workspace, and send control API requests."""
