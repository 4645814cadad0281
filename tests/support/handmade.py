"""The smallest artifact that `manifest.verify` accepts: right hashes over files that no engine could open."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from hotfoot.contract import manifest
from hotfoot.contract.manifest import GraphSpec, Manifest, ModelRef, TokenizerSpec

VOCABULARY = {"model": {"type": "WordLevel", "vocab": {"[UNK]": 0, "hello": 1}, "unk_token": "[UNK]"}}


def write_artifact(
    directory: Path, *, target: str = "lambda-x86_64", weights: bytes = b"onnx", task: str = "feature-extraction", beside: bytes = b""
) -> Manifest:
    """Write an artifact whose graph is `weights`, with a file of weights beside it where `beside` has any.

    Two of them share their tokenizer, byte for byte.
    """
    tokenizer = directory / manifest.TOKENIZER_DIR / "tokenizer.json"
    tokenizer.parent.mkdir(parents=True)
    tokenizer.write_text(json.dumps(VOCABULARY), encoding="utf-8")
    (directory / "model.onnx").write_bytes(weights)
    (directory / "LICENSE").write_text("the model's own licence\n", encoding="utf-8")
    listed = [directory / "model.onnx", directory / "LICENSE"]
    if beside:
        (directory / manifest.WEIGHTS).write_bytes(beside)
        listed.append(directory / manifest.WEIGHTS)
    (directory / manifest.EVIDENCE).write_text("{}", encoding="utf-8")
    pieces = manifest.describe(tokenizer.parent, [tokenizer])
    made = Manifest(
        format=manifest.FORMAT,
        model=ModelRef(id="made/by-hand", revision="0" * 40, architecture="None", license="apache-2.0", notices=("LICENSE",)),
        task=task,
        target=target,
        precision="fp32",
        recipe=(),
        graphs=(GraphSpec(role="model", file="model.onnx", inputs=(), outputs=()),),
        tokenizer=TokenizerSpec(
            hash=manifest.combine(pieces), files=pieces, pad_id=0, pad_type_id=0, pad_side="right", truncation_side="right"
        ),
        max_tokens=8,
        labels=(),
        facts={},
        files=manifest.describe(directory, listed),
    )
    (directory / manifest.MANIFEST).write_text(manifest.dumps(made), encoding="utf-8")
    return made


def retarget(directory: Path, target: str) -> Manifest:
    """Say that the artifact in `directory` was made for another target."""
    made = replace(manifest.read(directory), target=target)
    (directory / manifest.MANIFEST).write_text(manifest.dumps(made), encoding="utf-8")
    return made
