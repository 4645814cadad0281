"""What travels between the build and the export environment: one request in, files out. Nothing else crosses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hotfoot.task import Array, Cut, Family

RESULT, GRAPH, ARRAYS, TOKENIZER, HEAD = "export.json", "model.onnx", "reference.npz", "tokenizer.json", "head.npz"
# role -> file, of what each family of models is exported as
GRAPHS: Mapping[Family, Mapping[str, str]] = {
    "encoder": {"model": GRAPH},
    "decoder": {"decoder": "decoder.onnx"},
    "encoder-decoder": {"encoder": "encoder.onnx", "decoder": "decoder.onnx"},
}


@dataclass(frozen=True)
class ExportRequest:
    """What to export and what to ask the original. `embedding` is set for embeddings: pooling, normalize.

    beside: outputs that are read with `output`, as the task's export says. seconds: of pairs, the text that goes with each. cuts: which
    text of a pair is cut to the limit. masks: a word of each text gives way to the model's mask. probe:
    `module:function` of what is kept of each output, a task's of hotfoot's own; empty to keep all. family: what kind of graphs to make.
    """

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
    beside: tuple[str, ...] = ()
    seconds: tuple[str, ...] = ()
    cuts: Cut = "second"
    masks: bool = False
    probe: str = ""
    family: Family = "encoder"


@dataclass(frozen=True)
class ExportResult:
    """Facts that only the original's own code knows, and the versions that made the files.

    special: the tokens by their names, as `mask_token`. tidies: decoding takes the spaces before punctuation away.
    """

    pad_id: int | None
    pad_side: str
    truncation_side: str
    versions: Mapping[str, str]
    special: Mapping[str, str]
    tidies: bool


@dataclass(frozen=True)
class Reference:
    """The original's answers: one output array a text, and the token ids of texts and tokenizer texts, cut to the limit.

    targets: of an encoder-decoder, the tokens that each output is about, the one that its decoder starts with first.
    """

    outputs: tuple[Array, ...]
    ids: tuple[NDArray[np.int64], ...]
    targets: tuple[NDArray[np.int64], ...] = ()

    def save(self, path: Path) -> None:
        """Ragged arrays as one flat array and the shape of each."""
        arrays = {**_pack("outputs", self.outputs), **_pack("ids", self.ids)}
        if self.targets:
            arrays |= _pack("targets", self.targets)
        np.savez(path, allow_pickle=False, **arrays)

    @classmethod
    def load(cls, path: Path) -> Reference:
        """What `save` wrote."""
        with np.load(path) as arrays:
            targets = _unpack("targets", arrays) if "targets" in arrays else ()
            return cls(_unpack("outputs", arrays), _unpack("ids", arrays), targets)


def _pack(name: str, arrays: Sequence[NDArray[Any]]) -> dict[str, NDArray[Any]]:
    # one array a text would be thousands of zip members
    shapes = np.array([a.shape for a in arrays], dtype=np.int64)
    return {name: np.concatenate([a.ravel() for a in arrays]), f"{name}.shapes": shapes}


def _unpack(name: str, arrays: Mapping[str, NDArray[Any]]) -> tuple[NDArray[Any], ...]:
    flat, shapes = arrays[name], arrays[f"{name}.shapes"]
    ends = np.cumsum(shapes.prod(axis=1))
    return tuple(flat[end - int(np.prod(shape)) : end].reshape(shape) for shape, end in zip(shapes, ends, strict=True))
