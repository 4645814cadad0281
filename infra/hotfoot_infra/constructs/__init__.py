"""The parts of a stack, one concern each."""
