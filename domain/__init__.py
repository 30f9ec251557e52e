"""The trade that the sandbox simulates: invoices, offers, financing, verification, webhooks."""
