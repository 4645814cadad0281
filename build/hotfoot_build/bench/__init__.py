"""Measurements that others can repeat: what the passes gain and cost, what each session setting does. `scripts/bench` runs them."""
