"""Texts in bulk: objects of many records in, answers at keys that only the same input can give. Pure over streams, but for `s3`."""
