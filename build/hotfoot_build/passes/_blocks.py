"""Weights in blocks along a column, each with a scale of its own: the form that ONNX Runtime's MatMulNBits reads.

w ≈ (q - z) · s   with q of 4 or 8 bits, and z the middle of its range or, asymmetric, a zero point a block
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from hotfoot.contract.errors import InputError
from hotfoot_build.graph import MICROSOFT, Graph, constant, insert
from hotfoot_build.passes._products import Bias, Product

Floats = NDArray[np.float32]
LEAST_BLOCK, LARGEST_BLOCK = 16, 256  # what ONNX Runtime's kernels take, in powers of two
LEVELS = (0, 1, 4)  # of accuracy: 4 computes with int8 activations, 1 with float32 ones, 0 leaves it to ONNX Runtime
LEAST_SCALE = 1e-20
# of the block's full range: the few largest weights are clipped where that makes the others more exact
SHARES = np.linspace(0.7, 1.1, 17, dtype=np.float32)
SLAB = 1 << 22  # weights at a time, so that a vocabulary's product does not fill the memory


@dataclass(frozen=True)
class Layout:
    """How a weight is stored, and how exactly the product is computed."""

    bits: int
    block: int
    symmetric: bool
    level: int

    @property
    def most(self) -> int:
        """The largest integer."""
        return (1 << self.bits) - 1

    @property
    def middle(self) -> int:
        """The integer that stands for zero where there is no zero point."""
        return 1 << (self.bits - 1)


@dataclass(frozen=True, eq=False)
class Blocks:
    """A quantized matrix: integers as uint8 of shape (columns, blocks, block), scales and zero points of shape (columns, blocks)."""

    layout: Layout
    integers: NDArray[np.uint8]
    scales: Floats
    zeros: NDArray[np.uint8]

    def floats(self, depth: int) -> Floats:
        """What the integers stand for, as (depth, columns)."""
        values = (self.integers.astype(np.float32) - self.zeros[..., None]) * self.scales[..., None]
        result: Floats = values.reshape(len(values), -1)[:, :depth].T
        return result


def check_layout(name: str, block: int, level: int) -> None:
    """Raise InputError for a block or an accuracy level that ONNX Runtime does not know."""
    if block not in [1 << n for n in range(LEAST_BLOCK.bit_length() - 1, LARGEST_BLOCK.bit_length())]:
        words = f"{name}.block_size is {block}; it must be a power of two from {LEAST_BLOCK} to {LARGEST_BLOCK}."
        raise InputError(words, where="options")
    if level not in LEVELS:
        raise InputError(f"{name}.accuracy_level is {level}; it must be one of {', '.join(map(str, LEVELS))}.", where="options")


def padded(matrix: Floats, block: int) -> Floats:
    """(depth, columns) as (columns, blocks, block), with zeros where the last block ends after the matrix."""
    depth, columns = matrix.shape
    blocks = -(-depth // block)
    result = np.zeros((columns, blocks * block), np.float32)
    result[:, :depth] = matrix.T
    return result.reshape(columns, blocks, block)


def nearest(matrix: Floats, layout: Layout, importance: Floats | None = None) -> Blocks:
    """Each weight of (depth, columns) rounded by itself. importance: what an error costs, of shape (depth,)."""
    weights = padded(matrix, layout.block)
    cost = padded(importance[:, None], layout.block) if importance is not None else np.ones((1, 1, 1), np.float32)
    parts = [_nearest(slab, layout, cost) for slab in _slabs(weights)]
    integers, scales, zeros = (np.concatenate(part) for part in zip(*parts, strict=True))
    return Blocks(layout, integers, scales, zeros)


def _slabs(weights: Floats) -> Iterator[Floats]:
    step = max(1, SLAB // weights[0].size)
    return (weights[start : start + step] for start in range(0, len(weights), step))


def _nearest(weights: Floats, layout: Layout, cost: Floats) -> tuple[NDArray[np.uint8], Floats, NDArray[np.uint8]]:
    scales, zeros = fit(weights, layout, cost)
    return round_to(weights, scales[..., None], zeros[..., None], layout).astype(np.uint8), scales, zeros.astype(np.uint8)


def round_to(weights: Floats, scales: Floats, zeros: Floats, layout: Layout) -> Floats:
    """The integers of weights, as floats."""
    result: Floats = np.clip(np.rint(weights / scales) + zeros, 0, layout.most)
    return result


def fit(weights: Floats, layout: Layout, cost: Floats) -> tuple[Floats, Floats]:
    """Scale and zero point of each block, for weights of shape (…, block).

    Of 8 bits there are enough for the whole range. For 4 several parts of the range are tried, and the one kept whose squared error,
    weighed by `cost`, is the least.
    """
    if layout.bits == 8:
        return _whole_range(weights, layout)
    best = np.full(weights.shape[:-1], np.inf, np.float32)
    kept, kept_zeros = np.ones_like(best), np.full_like(best, layout.middle)
    for start, zeros in _candidates(weights, layout):
        scales = _least_squares(weights, start, zeros, layout, cost)
        values = (round_to(weights, scales[..., None], zeros[..., None], layout) - zeros[..., None]) * scales[..., None]
        errors = (cost * (values - weights) ** 2).sum(axis=-1)
        better = errors < best
        best, kept, kept_zeros = np.where(better, errors, best), np.where(better, scales, kept), np.where(better, zeros, kept_zeros)
    return kept.astype(np.float32), kept_zeros.astype(np.float32)


def _whole_range(weights: Floats, layout: Layout) -> tuple[Floats, Floats]:
    if layout.symmetric:
        scales = np.maximum(np.abs(weights).max(axis=-1) / (layout.middle - 1), LEAST_SCALE)
        return scales.astype(np.float32), np.full(scales.shape, layout.middle, np.float32)
    low, high = np.minimum(weights.min(axis=-1), 0), np.maximum(weights.max(axis=-1), 0)
    scales = np.maximum((high - low) / layout.most, LEAST_SCALE)
    return scales.astype(np.float32), np.rint(-low / scales).astype(np.float32)


def _candidates(weights: Floats, layout: Layout) -> Iterator[tuple[Floats, Floats]]:
    """Scales and zero points to begin with.

    The range of a symmetric block has one step more below zero than above: a scale of either sign may make better use of it.
    """
    if not layout.symmetric:
        scales, points = _whole_range(weights, layout)
        yield from ((share * scales, points) for share in SHARES)
        return
    largest = np.take_along_axis(weights, np.abs(weights).argmax(axis=-1)[..., None], axis=-1)[..., 0]
    whole: Floats = (-largest / layout.middle).astype(np.float32)
    zeros = np.full(weights.shape[:-1], layout.middle, np.float32)
    whole[np.abs(whole) < LEAST_SCALE] = LEAST_SCALE
    for share in SHARES:
        yield share * whole, zeros
        yield -share * whole, zeros


def _least_squares(weights: Floats, scales: Floats, zeros: Floats, layout: Layout, cost: Floats) -> Floats:
    """The scale that fits the integers best which `scales` gives."""
    steps = round_to(weights, scales[..., None], zeros[..., None], layout) - zeros[..., None]
    above, below = (cost * steps * weights).sum(axis=-1), (cost * steps * steps).sum(axis=-1)
    fitted = np.divide(above, below, out=scales.astype(np.float32), where=below > 0)
    result: Floats = np.where(np.abs(fitted) < LEAST_SCALE, scales, fitted)
    return result


def emit(graph: Graph, product: Product, blocks: Blocks, bias: Bias | None) -> ir.Value:
    """A MatMulNBits in front of the product, whose weights are shared by all products of the same matrix."""
    layout, name = blocks.layout, f"{product.stored.name}.{blocks.layout.bits}bits"
    inputs: list[ir.Value | None] = [
        product.rows,
        constant(graph, name, _packed(blocks.integers, layout)),
        constant(graph, f"{name}.scale", blocks.scales),
    ]
    if not layout.symmetric:
        inputs.append(constant(graph, f"{name}.zero", _packed(blocks.zeros, layout)))
    if bias is not None:
        inputs += [*[None] * (5 - len(inputs)), bias.vector]
    attributes: dict[str, Any] = {"K": product.depth, "N": product.columns, "bits": layout.bits, "block_size": layout.block}
    return insert(graph, product.node, "MatMulNBits", inputs, {**attributes, "accuracy_level": layout.level}, MICROSOFT)


def _packed(integers: NDArray[np.uint8], layout: Layout) -> NDArray[np.uint8]:
    """Integers of 4 bits two a byte along the last axis, the first in the lower half."""
    if layout.bits == 8:
        return integers
    if integers.shape[-1] % 2:
        integers = np.concatenate([integers, np.zeros_like(integers[..., :1])], axis=-1)
    return (integers[..., 0::2] | (integers[..., 1::2] << 4)).astype(np.uint8)
