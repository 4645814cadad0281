"""hotfoot's infrastructure: composes what the build stage made into stacks."""
