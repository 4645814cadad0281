"""From an artifact to directories that a machine can run: wheels, pruning, bytecode, ELF checks, layers, limits, emulation."""
