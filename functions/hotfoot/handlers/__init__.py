"""The Lambda entry points."""

import os

# numpy's OpenBLAS starts a thread a core as it is imported, and they spin: a cold start takes 0.34 s of CPU with two of them and 0.23
# without. Nothing that answers goes through BLAS.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
