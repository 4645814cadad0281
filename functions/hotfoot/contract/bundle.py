"""What the build stage hands to infra: directories that become Lambda layers and code, each named by its content."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from hotfoot.contract import codec
from hotfoot.contract.errors import ArtifactError

BUNDLE = "bundle.json"
MODEL_PLACE = "hotfoot/model"  # of the artifact in its layer
LayerKind = Literal["runtime", "fetch", "tokenizer", "model", "code", "weights"]
# layers: the weights in the model's layer; s3: in an object that the function reads into its memory; image: all of it in a container image
Package = Literal["layers", "s3", "image"]
PACKAGES = get_args(Package)


@dataclass(frozen=True)
class LayerDir:
    """One directory of the bundle. `path` is relative to the bundle; sizes in bytes; `hash` is over names and contents."""

    kind: LayerKind
    path: str
    hash: str
    unzipped_bytes: int
    zipped_bytes: int


@dataclass(frozen=True)
class Bundle:
    """A deployable package: layers in the order in which Lambda merges them, and the code.

    bytecode is False where no interpreter of `python` was at hand, so that each cold start compiles its modules. task is empty in
    bundles of before it was written down. weights: the folder whose only file becomes an object, where the package is s3. An image
    is built of the bundle's folder, by the Dockerfile in it.
    """

    target: str
    python: str
    arch: str
    handler: str
    model_id: str
    model_digest: str
    bytecode: bool
    layers: tuple[LayerDir, ...]
    code: LayerDir
    task: str = ""
    package: Package = "layers"
    weights: LayerDir | None = None

    @property
    def unzipped_bytes(self) -> int:
        """What counts against the platform's limit: the code and every layer, not the weights that are elsewhere."""
        return self.code.unzipped_bytes + sum(layer.unzipped_bytes for layer in self.layers)

    @property
    def zipped_bytes(self) -> int:
        """What a first deployment uploads of the code and every layer; later ones upload only what changed."""
        return self.code.zipped_bytes + sum(layer.zipped_bytes for layer in self.layers)


def read(directory: Path) -> Bundle:
    """The bundle in `directory`; raises ArtifactError where there is none or its index is faulty."""
    path = directory / BUNDLE
    if not path.is_file():
        raise ArtifactError(f"no {BUNDLE} in {directory}", hint="Give the folder that `hotfoot bundle --out` wrote.")
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ArtifactError(f"{path} is not UTF-8: {error}") from None
    return codec.loads(Bundle, text, str(path))
