"""Bundles of a few bytes: what infrastructure reads of one, and nothing that runs."""

from __future__ import annotations

from pathlib import Path

from hotfoot.contract import codec
from hotfoot.contract.bundle import BUNDLE, MODEL_PLACE, Bundle, LayerDir, LayerKind, Package
from hotfoot.contract.manifest import WEIGHTS
from hotfoot_build.package import tree


def write_bundle(
    directory: Path,
    *,
    target: str = "lambda-arm64",
    arch: str = "arm64",
    weights: str = "weights",
    model_id: str = "rigged/tiny",
    task: str = "text-classification",
    python: str = "3.13",
    package: Package = "layers",
) -> Bundle:
    """Write a bundle whose model is `weights`."""
    parts: dict[LayerKind, tuple[str, str]] = {
        "runtime": ("layers/runtime", "python/numpy.py"),
        "tokenizer": ("layers/tokenizer", "hotfoot/tokenizers/0/tokenizer.json"),
        "model": ("layers/model", "hotfoot/model/model.onnx"),
        "code": ("code", "hotfoot/handlers/http.py"),
    }
    for kind, (folder, file) in parts.items():
        path = directory / folder / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(weights if kind == "model" else kind, encoding="utf-8")
    if package == "s3":
        place = directory / "weights" / MODEL_PLACE
        place.mkdir(parents=True, exist_ok=True)
        (place / WEIGHTS).write_text(weights, encoding="utf-8")
    runtime, tokenizer, model, code = (described(directory, kind, folder) for kind, (folder, _) in parts.items())
    made = Bundle(
        target=target,
        python=python,
        arch=arch,
        handler="hotfoot.handlers.http.handler",
        model_id=model_id,
        model_digest="0" * 64,
        bytecode=True,
        layers=(runtime, tokenizer, model),
        code=code,
        task=task,
        package=package,
        weights=described(directory, "weights", "weights") if package == "s3" else None,
    )
    (directory / BUNDLE).write_text(codec.dumps(made), encoding="utf-8")
    return made


def described(directory: Path, kind: LayerKind, folder: str) -> LayerDir:
    """The layer as the bundle's index has it."""
    root = directory / folder
    return LayerDir(kind, folder, tree.content_hash(root), tree.size(root), tree.zipped_size(root))
