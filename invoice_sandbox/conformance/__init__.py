"""What a client must do: acceptance plans, their rules, and what a client did."""
