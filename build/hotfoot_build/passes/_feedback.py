"""Rounding with error feedback: what one weight loses is made up for by those that are still to be rounded.

As in GPTQ (Frantar et al., 2022): the squared error of a product over real activations, not of the weights, is made small. Weights are
rounded in the order of the matrix's rows, and each error is spread by the activations' second moments.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from hotfoot_build.passes._blocks import Blocks, Floats, Layout, fit, padded, round_to

STEP = 64  # rows whose errors are spread over the rest in one product
DAMPING = 0.01  # of the mean of the diagonal: texts that are few or alike leave directions without any activation


def in_blocks(matrix: Floats, moments: Floats, layout: Layout) -> Blocks:
    """The matrix (depth, columns) in blocks. moments: the mean of x·xᵀ over the rows that it is multiplied with, (depth, depth)."""
    weights = padded(matrix, layout.block).reshape(matrix.shape[1], -1).T.copy()
    depth, count = len(matrix), len(weights) // layout.block
    cost = np.zeros((1, len(weights)), np.float32)
    cost[0, :depth] = np.diagonal(moments)
    integers = np.empty(weights.shape, np.uint8)
    scales, zeros = np.empty((count, weights.shape[1]), np.float32), np.empty((count, weights.shape[1]), np.float32)

    def begin(start: int, block: Floats) -> None:
        index, end = start // layout.block, start + layout.block
        scales[index], zeros[index] = fit(np.ascontiguousarray(block.T), layout, cost[:, start:end])

    def round_row(place: int, row: Floats) -> Floats:
        scale, zero = scales[place // layout.block], zeros[place // layout.block]
        integers[place] = steps = round_to(row, scale, zero, layout)
        values: Floats = (steps - zero) * scale
        return values

    _go(weights, moments, layout.block, begin, round_row)
    shaped = integers.reshape(count, layout.block, -1).transpose(2, 0, 1)
    return Blocks(layout, np.ascontiguousarray(shaped), scales.T.copy(), zeros.T.astype(np.uint8))


def in_columns(matrix: Floats, moments: Floats, largest: int) -> tuple[NDArray[np.int8], Floats]:
    """The matrix (depth, columns) as int8 within ±largest and one scale a column. moments: as above."""
    scales = np.maximum(np.abs(matrix).max(axis=0), np.finfo(np.float32).tiny) / np.float32(largest)
    integers = np.empty(matrix.shape, np.int8)

    def round_row(place: int, row: Floats) -> Floats:
        integers[place] = steps = np.clip(np.rint(row / scales), -largest, largest)
        values: Floats = steps * scales
        return values

    _go(np.array(matrix, np.float32), moments, STEP, lambda _start, _block: None, round_row)
    return integers, scales.astype(np.float32)


def _go(
    weights: Floats,
    moments: Floats,
    step: int,
    begin: Callable[[int, Floats], None],
    round_row: Callable[[int, Floats], Floats],
) -> None:
    """Round row after row, in place of the rows that are left taking in the errors: those of `step` rows at once, the others after.

    begin: sees the rows that come next, as they are by then. round_row: gives what a row is rounded to.
    """
    spreading = _spreading(moments, len(weights))
    for start in range(0, len(weights), step):
        block = weights[start : start + step]
        end = start + len(block)
        begin(start, block)
        errors = np.empty_like(block)
        for row in range(len(block)):
            place = start + row
            errors[row] = (block[row] - round_row(place, block[row])) / spreading[place, place]
            block[row + 1 :] -= np.outer(spreading[place, place + 1 : end], errors[row])
        weights[end:] -= spreading[start:end, end:].T @ errors


def _spreading(moments: Floats, size: int) -> Floats:
    """The upper Cholesky factor of the inverse of the moments, (size, size): how an error goes on to the rows after it."""
    depth = len(moments)
    whole = np.zeros((size, size))
    whole[:depth, :depth] = moments
    mean = float(np.diagonal(moments).mean())
    whole[np.diag_indices(size)] += DAMPING * mean if mean > 0 else 1.0
    result: Floats = np.linalg.cholesky(np.linalg.inv(whole)).T.astype(np.float32)
    return result
