"""The ASGI app: one file an API dialect."""
