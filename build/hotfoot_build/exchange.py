"""What travels between the build and the export environment: one request in, files out. Nothing else crosses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hotfoot.task import Array

RESULT, GRAPH, ARRAYS, TOKENIZER = "export.json", "model.onnx", "reference.npz", "tokenizer.json"


@dataclass(frozen=True)
class ExportRequest:
    """What to export and what to ask the original. `embedding` is set for embeddings: pooling, normalize."""

    model_path: str
    auto_class: str
    optimum_task: str
    output: str
    max_tokens: int
    embedding: Mapping[str, Any] | None
    sentence_transformer: bool
    pickled: bool
    trust_remote_code: bool
    texts: tuple[str, ...]
    tokenizer_texts: tuple[str, ...]


@dataclass(frozen=True)
class ExportResult:
    """Facts that only the original's own code knows, and the versions that made the files."""

    pad_id: int | None
    pad_side: str
    truncation_side: str
    versions: Mapping[str, str]


@dataclass(frozen=True)
class Reference:
    """The original's answers: one output array a text, and the token ids of texts and tokenizer texts, cut to the limit."""

    outputs: tuple[Array, ...]
    ids: tuple[NDArray[np.int64], ...]

    def save(self, path: Path) -> None:
        """Ragged arrays as one flat array and the shape of each."""
        arrays = {**_pack("outputs", self.outputs), **_pack("ids", self.ids)}
        np.savez(path, allow_pickle=False, **arrays)

    @classmethod
    def load(cls, path: Path) -> Reference:
        """What `save` wrote."""
        with np.load(path) as arrays:
            return cls(_unpack("outputs", arrays), _unpack("ids", arrays))


def _pack(name: str, arrays: Sequence[NDArray[Any]]) -> dict[str, NDArray[Any]]:
    # one array a text would be thousands of zip members
    shapes = np.array([a.shape for a in arrays], dtype=np.int64)
    return {name: np.concatenate([a.ravel() for a in arrays]), f"{name}.shapes": shapes}


def _unpack(name: str, arrays: Mapping[str, NDArray[Any]]) -> tuple[NDArray[Any], ...]:
    flat, shapes = arrays[name], arrays[f"{name}.shapes"]
    ends = np.cumsum(shapes.prod(axis=1))
    return tuple(flat[end - int(np.prod(shape)) : end].reshape(shape) for shape, end in zip(shapes, ends, strict=True))
