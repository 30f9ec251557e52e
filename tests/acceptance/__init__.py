"""Reference clients of the acceptance plan, and clients with one seeded fault each."""
