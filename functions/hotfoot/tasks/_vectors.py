"""What the embedding tasks share: one normalised vector a text leaves the graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hotfoot.contract.manifest import Manifest
from hotfoot.task import Array, ExportSpec

EXPORT = ExportSpec(auto_class="AutoModel", optimum_task="feature-extraction", output="last_hidden_state", pools=True)

PAIRS = 100_000

# int8's are hotfoot's own promise; fp32 must be the original but for the order of float sums, fp16 but for its eleven bits. int4's are
# what plain rounding in blocks of 32 leaves of a six-layer model, or nearly.
THRESHOLDS = {
    "fp32": {"cosine_mean": 0.99999, "cosine_p1": 0.9999, "cosine_min": 0.9999, "pair_spearman": 0.9999},
    "fp16": {"cosine_mean": 0.9999, "cosine_p1": 0.9995, "cosine_min": 0.999, "pair_spearman": 0.9995},
    "int8": {"cosine_mean": 0.995, "cosine_p1": 0.99, "cosine_min": 0.95, "pair_spearman": 0.99},
    "int4": {"cosine_mean": 0.95, "cosine_p1": 0.88, "cosine_min": 0.8, "pair_spearman": 0.94},
}


def facts(config: Mapping[str, Any]) -> dict[str, Any]:
    """Pooling and prompts, as the export stage found them in the sentence-transformers modules."""
    return dict(config["embedding"])


def parity(ours: Sequence[Array], reference: Sequence[Array], _manifest: Manifest) -> dict[str, float]:
    """Cosine with the original's vectors (mean, first percentile, least), and whether pairs of texts keep their order.

    The latter is Spearman's rank correlation of the cosines of up to 100,000 pairs: what a search or a clustering sees.
    """
    cosines = np.array([cosine(a, b) for a, b in zip(ours, reference, strict=True)])
    found = {"cosine_mean": float(cosines.mean()), "cosine_p1": float(np.percentile(cosines, 1)), "cosine_min": float(cosines.min())}
    return {**found, "pair_spearman": _pair_spearman(ours, reference)}


def _pair_spearman(ours: Sequence[Array], reference: Sequence[Array]) -> float:
    # token vectors of a text have no cosine with another text's: their mean has
    sets = [np.stack([unit(v if v.ndim == 1 else v.mean(axis=0)) for v in vectors]) for vectors in (ours, reference)]
    count = len(ours)
    if count < 3:
        return 1.0 if count else 0.0
    first, second = np.triu_indices(count, 1)
    if len(first) > PAIRS:
        kept = np.random.default_rng(0).choice(len(first), PAIRS, replace=False)
        first, second = first[kept], second[kept]
    ranks = [np.argsort(np.argsort((s[first] * s[second]).sum(axis=1), kind="stable"), kind="stable") for s in sets]
    return float(np.corrcoef(ranks[0], ranks[1])[0, 1])


def cosine(a: Array, b: Array) -> float:
    """Cosine of two arrays of one shape, token vectors flattened."""
    x, y = a.astype(np.float64).ravel(), b.astype(np.float64).ravel()
    return float(x @ y / max(float(np.linalg.norm(x) * np.linalg.norm(y)), 1e-30))


def shorten(vector: Array, dimensions: int | None) -> Array:
    """The first `dimensions` numbers at unit length again (Matryoshka), or the vector as it is."""
    if dimensions is None:
        return vector
    head = vector[..., :dimensions]
    return unit(head)


def unit(vector: Array) -> Array:
    """The vector at length 1; a zero vector stays zero."""
    result: Array = vector / np.maximum(np.linalg.norm(vector, axis=-1, keepdims=True), np.float32(1e-12))
    return result
