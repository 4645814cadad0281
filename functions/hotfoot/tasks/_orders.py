"""How far two orders of the same things agree."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def mean(values: Sequence[float]) -> float:
    """Of no value 0, so that a measure that nothing was measured for passes no bar."""
    return float(np.mean(values)) if values else 0.0


def kendall(ours: NDArray[np.float64], reference: NDArray[np.float64]) -> float:
    """Kendall's tau over the pairs that the reference sets apart; 1 where there is none. Both of shape (things,)."""
    first, second = np.triu_indices(len(ours), 1)
    mine, theirs = (np.sign(x[first] - x[second]) for x in (ours, reference))
    apart = theirs != 0
    return float((mine * theirs)[apart].mean()) if apart.any() else 1.0
