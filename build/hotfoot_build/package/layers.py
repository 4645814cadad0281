"""The directories of a bundle: runtime, tokenizer and model become layers, code is the function itself, weights may lie beside them.

Each is named by its content, so what did not change is not uploaded again: two models with one tokenizer share its layer,
and a new model version changes the model layer alone.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path

import hotfoot
from hotfoot.contract import codec
from hotfoot.contract.bundle import MODEL_PLACE, LayerDir, LayerKind
from hotfoot.contract.errors import ArtifactError, UnsupportedError
from hotfoot.contract.manifest import MANIFEST, TOKENIZER_DIR, WEIGHTS, Manifest, sha256
from hotfoot.contract.target import Arch
from hotfoot_build import cache
from hotfoot_build.package import bytecode, elf, prune, tree, wheels
from hotfoot_build.package.interpreters import Interpreter
from hotfoot_build.progress import size

Progress = Callable[[str], None]
FORMAT = 3  # raise it when a runtime layer is made in another way, so that no older one is taken from the cache
LAYERS, CODE, WEIGHTS_FOLDER = "layers", "code", "weights"
FOLDER = "runtime"  # of a layer of packages in the cache, whatever it is called in a bundle
MOUNTED, TASK_ROOT = "/opt", "/var/task"  # where Lambda puts layers and code; tracebacks name files there


@dataclass(frozen=True)
class Part:
    """A directory of the bundle, its files' weights by their path there, and the bytes that each prune rule took out of it."""

    layer: LayerDir
    files: Mapping[str, tree.Weight]
    saved: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class PackagesSpec:
    """All that a layer of packages depends on. interpreter compiles it; None leaves it uncompiled. kind is its name in the bundle."""

    lock: Path
    platform: str
    arch: Arch
    glibc: tuple[int, int]
    python: str
    interpreter: Interpreter | None
    kind: LayerKind = "runtime"

    @property
    def key(self) -> str:
        """Names the layer in the cache: the same key means the same bytes."""
        facts = {
            "format": FORMAT,
            "lock": sha256(self.lock),
            "platform": self.platform,
            "glibc": self.glibc,
            "python": self.python,
            "compiled_by": self.interpreter.version if self.interpreter else "",
            "rules": [asdict(rule) for rule in prune.RULES],
        }
        return cache.key(json.dumps(facts, sort_keys=True))


def packages_layer(bundle: Path, spec: PackagesSpec, progress: Progress) -> Part:
    """Put third-party packages into the bundle, from the user's cache where the same layer was made before."""

    def whole(place: Path) -> bool:
        intact = _intact(place)
        kept = "unchanged, taken from the cache" if intact else f"the cached layer in {place} was changed or cut off; making it again"
        progress(f"{spec.kind}: {kept}")
        return intact

    wanted = cache.root() / "layers" / spec.key
    # held while it is copied: another bundle could find it damaged, or old, and take it away
    with cache.using(wanted, lambda aside: _make_packages(aside, spec, progress), whole=whole, say=progress) as place:
        made = _described(place)
        shutil.copytree(place / FOLDER, bundle / LAYERS / spec.kind)
        return replace(made, layer=replace(made.layer, kind=spec.kind, path=f"{LAYERS}/{spec.kind}"))


def _intact(place: Path) -> bool:
    try:
        return tree.content_hash(place / FOLDER) == _described(place).layer.hash
    except (FileNotFoundError, ArtifactError):
        return False


def _described(place: Path) -> Part:
    return codec.loads(Part, (place / "layer.json").read_text(encoding="utf-8"), str(place))


def _make_packages(aside: Path, spec: PackagesSpec, progress: Progress) -> None:
    python = aside / FOLDER / "python"
    progress(f"{spec.kind}: installing the wheels of {spec.lock.name} for {spec.platform}, Python {spec.python}")
    wheels.install(spec.lock, python, platform=spec.platform, python=spec.python)
    saved = prune.prune(python)
    progress(f"{spec.kind}: pruned " + ", ".join(f"{name} {size(count)}" for name, count in saved.items() if count))
    found = elf.faults(python, arch=spec.arch, glibc=spec.glibc, python=spec.python)
    if found:
        raise ArtifactError(
            f"{len(found)} compiled file(s) of the packages do not fit the target:\n" + "\n".join(f"  {f}" for f in found),
            hint="Does the target's platform name the machine that it has?",
        )
    if spec.interpreter:
        progress(f"{spec.kind}: compiling with Python {spec.interpreter.version}")
        bytecode.compile_tree(python, spec.interpreter, shown_as=f"{MOUNTED}/python")
    part = replace(_sealed(aside, "runtime", FOLDER), saved=saved)
    (aside / "layer.json").write_text(codec.dumps(part), encoding="utf-8")


def tokenizer_layer(bundle: Path, artifact: Path, manifest: Manifest) -> Part:
    """Put the tokenizer's files where the runtime looks for them by hash."""
    layer = bundle / LAYERS / "tokenizer"
    for entry in manifest.tokenizer.files:
        _copy(artifact / TOKENIZER_DIR / entry.path, layer / "hotfoot" / "tokenizers" / manifest.tokenizer.hash / entry.path)
    return _sealed(bundle, "tokenizer", f"{LAYERS}/tokenizer")


def model_layer(bundle: Path, artifact: Path, manifest: Manifest, *, weights: bool) -> Part:
    """Put the manifest and the files that it lists there, but neither the tokenizer nor the evidence of how it was built.

    weights: False leaves those out that can lie elsewhere.
    """
    layer = bundle / LAYERS / "model" / MODEL_PLACE
    for path in (MANIFEST, *(entry.path for entry in manifest.files)):
        if weights or path != WEIGHTS:
            _copy(artifact / path, layer / path)
    return _sealed(bundle, "model", f"{LAYERS}/model")


def weights_folder(bundle: Path, artifact: Path) -> Part:
    """Put the weights beside the layers, for an object of their own; in a place as a layer's, for who lays them over the model's."""
    _copy(artifact / WEIGHTS, bundle / WEIGHTS_FOLDER / MODEL_PLACE / WEIGHTS)
    return _sealed(bundle, "weights", WEIGHTS_FOLDER)


def code_directory(bundle: Path, task: str, interpreter: Interpreter | None) -> Part:
    """Put the `hotfoot` package there and, for a task of the user's own (`mypkg.mytask`), the package that holds it."""
    code = bundle / CODE
    _copy_package(Path(hotfoot.__file__).parent, code)
    if "." in task:
        _copy_package(_package_of(task), code)
    if interpreter:
        bytecode.compile_tree(code, interpreter, shown_as=TASK_ROOT)
    return _sealed(bundle, "code", CODE)


def _package_of(task: str) -> Path:
    name = task.partition(".")[0]
    spec = find_spec(name)
    if spec is None or spec.origin is None:
        raise UnsupportedError(
            f"the task {task!r} is in no package that can be shipped.", hint=f"Is {name} importable, with an __init__.py?"
        )
    return Path(spec.origin).parent


def _copy_package(source: Path, code: Path) -> None:
    shutil.copytree(source, code / source.name, ignore=shutil.ignore_patterns("__pycache__", "*.pyc", ".*"))


def _copy(source: Path, to: Path) -> None:
    to.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, to)


def _sealed(root: Path, kind: LayerKind, folder: str, path: str = "") -> Part:
    """Make `root/folder` readable by anyone and describe it; `path` is its place in the bundle where that is another."""
    directory = root / folder
    tree.normalise(directory)
    zipped_bytes, files = tree.weigh(directory)
    return Part(LayerDir(kind, path or folder, tree.content_hash(directory), tree.size(directory), zipped_bytes), files)
