"""The manifest: what an artifact is, what is in it, and a digest that only the same inputs can give.

It holds no clock, path, host or measurement; those live beside it in `evidence.json`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from hotfoot.contract import codec
from hotfoot.contract.errors import ArtifactError

FORMAT = 2
MANIFEST, EVIDENCE, SAMPLES = "manifest.json", "evidence.json", "samples.json"
TOKENIZER_DIR = "tokenizer"
WEIGHTS = "weights.data"  # what the graphs keep outside their own files
Side = Literal["left", "right"]


@dataclass(frozen=True)
class ModelRef:
    """Where the weights come from. `revision` is a commit, or `sha256:…` over a local folder's files."""

    id: str
    revision: str
    architecture: str
    license: str
    notices: tuple[str, ...]


@dataclass(frozen=True)
class FileEntry:
    """One file of the artifact; `path` is relative, with forward slashes."""

    path: str
    size: int
    sha256: str


@dataclass(frozen=True)
class TensorSpec:
    """A graph input or output: numpy dtype name, and one int or symbol a dimension."""

    name: str
    dtype: str
    shape: tuple[int | str, ...]


@dataclass(frozen=True)
class Activation:
    """The most bytes that are live at once, weights aside, while a graph runs one text of so many tokens."""

    tokens: int
    bytes: int


@dataclass(frozen=True)
class GraphSpec:
    """One ONNX graph of the artifact and its door.

    activations: at several lengths, shortest first, the last the longest that there is; empty where they did not follow from the graph.
    """

    role: str
    file: str
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    activations: tuple[Activation, ...] = ()


@dataclass(frozen=True)
class TokenizerSpec:
    """`hash` names the tokenizer's files, wherever they lie: in the layer or in the artifact."""

    hash: str
    files: tuple[FileEntry, ...]
    pad_id: int
    pad_type_id: int
    pad_side: Side
    truncation_side: Side


@dataclass(frozen=True)
class PassRecord:
    """What a pass did to the graph, or why it did not apply."""

    name: str
    options: Mapping[str, Any]
    applied: bool
    reason: str
    ops_before: Mapping[str, int]
    ops_after: Mapping[str, int]


@dataclass(frozen=True)
class Manifest:
    """Everything the runtime has to know; `facts` are the task's own (pooling, problem type, prompts ...).

    independent_rows: no operator of the graph mixes the texts of a batch, so that they may run together.
    """

    format: int
    model: ModelRef
    task: str
    target: str
    precision: str
    recipe: tuple[PassRecord, ...]
    graphs: tuple[GraphSpec, ...]
    tokenizer: TokenizerSpec
    max_tokens: int
    labels: tuple[str, ...]
    facts: Mapping[str, Any]
    files: tuple[FileEntry, ...]
    independent_rows: bool = True

    @property
    def digest(self) -> str:
        """sha256 (hex) over every field: the format, the files' hashes, and what they mean."""
        canonical = json.dumps(codec.plain(self), sort_keys=True, separators=(",", ":"), ensure_ascii=True)
        return hashlib.sha256(canonical.encode()).hexdigest()

    def graph(self, role: str = "model") -> GraphSpec:
        """The graph with this role; raises ArtifactError that lists the roles there are."""
        for graph in self.graphs:
            if graph.role == role:
                return graph
        raise ArtifactError(f"the artifact has no graph {role!r}; it has {', '.join(g.role for g in self.graphs)}")


def dumps(manifest: Manifest) -> str:
    """The manifest with its digest, as written to `manifest.json`."""
    return codec.dumps({"digest": manifest.digest, **codec.plain(manifest)})


def loads(text: str, source: str = MANIFEST) -> Manifest:
    """Read a manifest. Raises ArtifactError: every ill field at once, an unknown format, or a digest that does not fit."""
    document = codec.parse(text, source)
    if not isinstance(document, dict):
        raise ArtifactError(f"{source} must hold a JSON object")
    if document.get("format") != FORMAT:
        raise ArtifactError(
            f"{source} has format {document.get('format')!r}; this hotfoot reads format {FORMAT}.",
            hint="Build the artifact again with this version, or serve it with the version that built it.",
        )
    written = document.pop("digest", None)
    manifest = codec.build(Manifest, document, source)
    if written != manifest.digest:
        raise ArtifactError(f"{source} was changed after the build: it says digest {written}, its content has {manifest.digest}")
    return manifest


def read(directory: Path) -> Manifest:
    """The manifest of the artifact in `directory`; raises ArtifactError where there is none."""
    path = directory / MANIFEST
    try:
        return loads(path.read_text(encoding="utf-8"), str(path))
    except (FileNotFoundError, NotADirectoryError):
        raise ArtifactError(f"no {MANIFEST} in {directory}", hint="Give the folder that `hotfoot build --out` wrote.") from None
    except UnicodeDecodeError as error:
        raise ArtifactError(f"{path} is not UTF-8: {error}") from None


def describe(root: Path, paths: Iterable[Path]) -> tuple[FileEntry, ...]:
    """FileEntry of each path below `root`, sorted by path."""
    entries = (FileEntry(p.relative_to(root).as_posix(), p.stat().st_size, sha256(p)) for p in paths)
    return tuple(sorted(entries, key=lambda e: e.path))


def sha256(path: Path) -> str:
    """Hex sha256 of a file, read in pieces."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def combine(entries: Iterable[FileEntry]) -> str:
    """One sha256 (hex) over file names and contents: the name of a tokenizer, a layer or a local model."""
    lines = sorted(f"{e.path} {e.sha256}" for e in entries)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def faults_of(root: Path, entries: Iterable[FileEntry]) -> list[str]:
    """Every way in which the files below `root` differ from `entries`: outside it, missing, resized, changed."""
    faults = []
    for entry in entries:
        path = root / entry.path
        if entry.path.startswith("/") or ".." in entry.path.split("/"):
            faults.append(f"{entry.path}: lies outside the artifact")
        elif not path.is_file():
            faults.append(f"{entry.path}: missing")
        elif path.stat().st_size != entry.size:
            faults.append(f"{entry.path}: {path.stat().st_size} bytes, the manifest says {entry.size}")
        elif sha256(path) != entry.sha256:
            faults.append(f"{entry.path}: content differs from the manifest's sha256")
    return faults


def verify(directory: Path) -> Manifest:
    """Check an artifact whole, every byte. Raises ArtifactError that names every fault at once."""
    manifest = read(directory)
    faults = faults_of(directory, manifest.files)
    faults += faults_of(directory / TOKENIZER_DIR, manifest.tokenizer.files)
    if combine(manifest.tokenizer.files) != manifest.tokenizer.hash:
        faults.append("tokenizer: its files do not give the hash that the manifest names")
    known = {e.path for e in manifest.files} | {f"{TOKENIZER_DIR}/{e.path}" for e in manifest.tokenizer.files}
    found = {p.relative_to(directory).as_posix() for p in directory.rglob("*") if p.is_file()}
    faults += [f"{name}: not in the manifest" for name in sorted(found - known - {MANIFEST, EVIDENCE, SAMPLES})]
    faults += [f"{g.file}: graph {g.role!r} names a file that the manifest does not list" for g in manifest.graphs if g.file not in known]
    if faults:
        raise ArtifactError(f"the artifact in {directory} has {len(faults)} fault(s):\n" + "\n".join(f"  {f}" for f in faults))
    return manifest
