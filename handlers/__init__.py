"""Handlers of the Invoice Liquidity sandbox: one module per tag, one function per operation."""
