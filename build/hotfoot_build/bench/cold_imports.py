"""What a function's imports cost, by how its bytecode went through the zip that Lambda unpacks.

A zip keeps no times worth the name, so bytecode that is held to its source's time is stale wherever it is unpacked.
"""

from __future__ import annotations

import calendar
import json
import os
import shutil
import subprocess
import tempfile
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from hotfoot.contract import bundle as bundles
from hotfoot.contract.bundle import MODEL_PLACE
from hotfoot.contract.errors import ArtifactError, UnsupportedError
from hotfoot_build.bench import timing
from hotfoot_build.bench.timing import Ratio
from hotfoot_build.package import interpreters, tree
from hotfoot_build.package.opt import laid_beside, merge_layers
from hotfoot_build.progress import Step

BUNDLED, ZIPPED, BARE, STALE = "as bundled", "through a zip", "no bytecode", "bytecode by time, through a zip"
PACKAGES = ("runtime", "fetch")  # the layers that have modules
# the handler's module opens the model, so it is left out of what is timed: its imports alone are
LIST = """
import importlib, json, sys
handler, roots = sys.argv[1], tuple(sys.argv[2:])
before = set(sys.modules)
importlib.import_module(handler)
files = {name: getattr(module, "__file__", None) or "" for name, module in list(sys.modules.items()) if name not in before}
print(json.dumps([name for name, file in files.items() if name != handler and file.startswith(roots)]))
"""
IMPORT = """
import importlib, sys, time
for name in sys.argv[1:]:
    importlib.import_module(name)
print(time.process_time())
"""


@dataclass(frozen=True)
class Imports:
    """One tree: CPU seconds of a process that imports all that the handler does, and how many times the bundle's own that is."""

    name: str
    modules: int
    cpu_s: float
    to_bundled: Ratio


@dataclass(frozen=True)
class Laid:
    """A bundle's code and layers as a function sees them."""

    code: Path
    opt: Path
    minor: str

    @property
    def path(self) -> tuple[Path, ...]:
        """What is searched for modules, as in the emulator."""
        return self.code, self.opt / "python" / "lib" / f"python{self.minor}" / "site-packages", self.opt / "python"


def measure(directory: Path, runs: int, step: Step) -> tuple[Imports, ...]:
    """Import from the four trees in fresh processes, in turn. Raises UnsupportedError without the bundle's Python."""
    bundle = bundles.read(directory)
    found = interpreters.find(bundle.python)
    if found is None or not bundle.bytecode:
        raise UnsupportedError(f"the bundle has no bytecode, or this machine no Python {bundle.python}.", hint="Bundle again.")
    with tempfile.TemporaryDirectory(prefix="hotfoot-bench-") as scratch:
        laid = trees(directory, bundle, found, Path(scratch), step)
        names = modules(laid[BUNDLED], found.path, bundle.handler.rpartition(".")[0])
        spent = dict.fromkeys(laid, 0.0)

        def turn(name: str) -> None:
            step(name)
            spent[name] += float(_run(found.path, laid[name], IMPORT, names))

        samples = timing.interleaved(
            {name: partial(turn, name) for name in laid}, rounds=runs, min_seconds=0, clock=lambda: sum(spent.values())
        )
    of = samples[BUNDLED]
    return tuple(Imports(name, len(names), timing.typical(taken), timing.ratio(taken, of)) for name, taken in samples.items())


def trees(directory: Path, bundle: bundles.Bundle, python: interpreters.Interpreter, scratch: Path, step: Step) -> dict[str, Laid]:
    """The bundle itself, and its code and packages as each of the other ways leaves them. Read-only, as Lambda's are."""
    parts = {layer.path: directory / layer.path for layer in (*bundle.layers, bundle.code)}
    packed = {path: parts[path] for path in (*(layer.path for layer in bundle.layers if layer.kind in PACKAGES), bundle.code.path)}
    made: dict[str, Mapping[str, Path]] = {BUNDLED: {}}
    for name in (ZIPPED, BARE, STALE):
        step(f"{name}: made")
        made[name] = {path: scratch / name / path for path in packed}
        for path, source in packed.items():
            _remade(name, source, made[name][path], python)
    laid = {}
    for name, changed in made.items():
        opt = scratch / "opt" / name
        opt.mkdir(parents=True)
        merge_layers([(changed.get(layer.path) or parts[layer.path]).resolve() for layer in bundle.layers], opt)
        if bundle.weights is not None:  # the handler's module opens the model, and nobody says in which S3 they are
            laid_beside((directory / bundle.weights.path / MODEL_PLACE).resolve(), opt / MODEL_PLACE)
        laid[name] = Laid((changed.get(bundle.code.path) or parts[bundle.code.path]).resolve(), opt.resolve(), bundle.python)
    return laid


def _remade(name: str, source: Path, place: Path, python: interpreters.Interpreter) -> None:
    with tempfile.TemporaryDirectory(prefix="hotfoot-bench-") as aside:
        if name == STALE:
            source = shutil.copytree(source, Path(aside, "tree"), ignore=_no_bytecode, copy_function=shutil.copy)
            command = [str(python.path), "-s", "-m", "compileall", "-q", "--invalidation-mode", "timestamp", str(source)]
            subprocess.run(command, check=True, env={k: v for k, v in os.environ.items() if not k.startswith("PYTHON")})
        with tempfile.TemporaryFile() as stream:
            tree.write_zip(source, stream)
            unpack(zipfile.ZipFile(stream), place, lambda file: name != BARE or "__pycache__" not in file)


def _no_bytecode(_folder: str, names: list[str]) -> list[str]:
    return [name for name in names if name == "__pycache__"]


def unpack(archive: zipfile.ZipFile, place: Path, wanted: Callable[[str], bool]) -> None:
    """Unpack as Lambda does: with the zip's own times, and read-only."""
    for entry in archive.infolist():
        if wanted(entry.filename):
            file = Path(archive.extract(entry, place))
            seconds = calendar.timegm((*entry.date_time, 0, 0, 0))  # a zip has no time zone
            os.utime(file, (seconds, seconds))
            file.chmod(0o444)


def modules(laid: Laid, python: Path, handler: str) -> list[str]:
    """What the handler's module imports out of the bundle, in the order in which it does, without itself."""
    named = [handler, *(str(root) for root in laid.path)]
    found: list[str] = json.loads(_run(python, laid, LIST, named).splitlines()[-1])
    return found


def _run(python: Path, laid: Laid, code: str, arguments: Sequence[str]) -> str:
    environ = {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "PYTHONPATH": ":".join(map(str, laid.path)),
        "PYTHONDONTWRITEBYTECODE": "1",
        "LANG": "en_US.UTF-8",
        "HOME": "/dev/null/home",
        "HOTFOOT_LAYER_ROOT": str(laid.opt),
        "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": "1769",
    }
    done = subprocess.run([str(python), "-s", "-S", "-c", code, *arguments], capture_output=True, text=True, check=False, env=environ)
    if done.returncode:
        raise ArtifactError(f"the bundle's modules do not import:\n{done.stderr.strip()[-2000:]}")
    return done.stdout
