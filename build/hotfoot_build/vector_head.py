"""What sentence-transformers does with a pooled vector: the modules behind Pooling, in their order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from hotfoot.contract.errors import UnsupportedError
from hotfoot_build import model_files

# by the last part of torch's name, as a module's config.json has it
ACTIVATIONS = {"GELU": "Gelu", "Identity": "", "ReLU": "Relu", "Tanh": "Tanh"}
VECTOR = "sentence_embedding"


@dataclass(frozen=True)
class Step:
    """One module behind the pooling. place: its number in modules.json, which its weights go by.

    Of a dense one, activation: the ONNX operator, empty for none; inputs, outputs: the widths.
    """

    kind: Literal["dense", "normalize"]
    place: int
    activation: str = ""
    inputs: int = 0
    outputs: int = 0


def read(model: Path, modules: Sequence[tuple[str, str]]) -> tuple[Step, ...]:
    """The steps of the modules (folder, class) behind the second, which pools. Dropout does nothing in a model that answers.

    Raises UnsupportedError for a module, an activation or a wiring that hotfoot would have to leave out.
    """
    kinds = [kind.rsplit(".", 1)[-1] for _, kind in modules]
    if kinds[:2] != ["Transformer", "Pooling"] or set(kinds[2:]) - {"Dense", "Dropout", "Normalize"}:
        raise UnsupportedError(
            f"modules.json lists {', '.join(kinds)}; hotfoot can serve Transformer, Pooling, and then Dense and Normalize.",
            hint="A module left out changes every vector.",
        )
    steps = []
    for place, (folder, _) in enumerate(modules):
        if kinds[place] == "Dense":
            steps.append(_dense(model, folder, place))
        elif kinds[place] == "Normalize":
            steps.append(Step("normalize", place))
    return tuple(steps)


def _dense(model: Path, folder: str, place: int) -> Step:
    config = model_files.read_json(model / folder / "config.json")
    named = str(config.get("activation_function", "torch.nn.modules.activation.Tanh"))
    if not named.startswith("torch.") or named.rsplit(".", 1)[-1] not in ACTIVATIONS:
        known = ", ".join(ACTIVATIONS)
        raise UnsupportedError(f"{folder} ends in {named}; hotfoot knows torch's {known}.", hint="Another activation changes every vector.")
    reads, writes = config.get("module_input_name", VECTOR), config.get("module_output_name")
    if reads != VECTOR or writes not in (None, VECTOR):
        raise UnsupportedError(f"{folder} makes {writes or reads} of {reads}; hotfoot serves modules that work on the {VECTOR}.")
    return Step(
        "dense", place, ACTIVATIONS[named.rsplit(".", 1)[-1]], _width(config, "in_features", folder), _width(config, "out_features", folder)
    )


def _width(config: dict[str, Any], name: str, folder: str) -> int:
    found = config.get(name)
    if not isinstance(found, int) or isinstance(found, bool) or found < 1:
        raise UnsupportedError(f"{name} in {folder}/config.json is {found!r}, which is no width.")
    return found
