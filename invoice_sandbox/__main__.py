"""``python -m invoice_sandbox``: the same command line as ``invoice-sandbox``."""

from invoice_sandbox.cli import main

main()
