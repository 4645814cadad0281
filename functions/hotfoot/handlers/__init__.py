"""The Lambda entry points, and what a process that starts for one of them can be spared."""

import gc
import os

# numpy's OpenBLAS starts a thread a core as it is imported, and they spin: a cold start takes 0.34 s of CPU with two of them and 0.23
# without. All that answers through BLAS are products of two vectors, too short for it to share out.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# nearly all that is made until a handler is whole stays for good, and to look through it for garbage takes 12 of 210 ms
gc.disable()


def whole() -> None:
    """For a handler's module to say when it has all it needs: from now on garbage is looked for, though never among what is there."""
    gc.freeze()
    gc.enable()
