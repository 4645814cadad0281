"""The Lambda entry points."""
