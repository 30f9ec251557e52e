"""Speed as ratios: what a request costs here, beside what it costs a server that does nothing."""
