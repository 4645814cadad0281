"""What every test stands on: an environment that says nothing about hotfoot, wherever the tests are run."""

from __future__ import annotations

import os
import signal

# before any test module is imported, as some modules of the runtime read the environment when they are
for name in list(os.environ):
    # the export environment is a tool of the developer's, as a compiler would be
    if name.startswith(("AWS_LAMBDA_", "HOTFOOT_", "POWERTOOLS_")) and name != "HOTFOOT_EXPORT_PYTHON":
        del os.environ[name]
# in the background of a script it is ignored, and so it would be in every process that a test starts and interrupts
signal.signal(signal.SIGINT, signal.default_int_handler)
