"""hotfoot's runtime: opens an artifact and answers. It never imports torch or transformers."""

import os

# ONNX Runtime from 1.29 on writes a device id and an event database under the home directory when it is imported, and sends
# events to its makers. A function that serves other people's texts does neither, and has no home directory.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
