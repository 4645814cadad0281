"""`hotfoot bundle`: an artifact becomes a directory that a machine can run, whole or not at all."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from hotfoot import targets
from hotfoot.contract import codec, manifest
from hotfoot.contract.bundle import BUNDLE, Bundle
from hotfoot.contract.errors import BudgetError, UnsupportedError
from hotfoot.contract.manifest import Manifest
from hotfoot.contract.target import Target
from hotfoot_build import budget, cache
from hotfoot_build.budget import Choice, Parts
from hotfoot_build.package import images, interpreters, layers, tree
from hotfoot_build.package.interpreters import Interpreter
from hotfoot_build.package.layers import PackagesSpec, Part, Progress
from hotfoot_build.package.ledger import LEDGER, Ledger
from hotfoot_build.package.wheels import LOCKS
from hotfoot_build.progress import size

HANDLER = "hotfoot.handlers.http.handler"
OLDEST = (3, 11)  # onnxruntime has no wheels for an older one
OLDEST_LAMBDA = (3, 12)  # the first on Amazon Linux 2023


def bundle(
    artifact: Path,
    out: Path,
    *,
    progress: Progress,
    python: str | None = None,
    target: Target | None = None,
    lock: Path | None = None,
    package: str | None = None,
) -> Bundle:
    """Make `out` from the artifact: layers and code for the target's machine, `bundle.json` and `ledger.json`. Gives the bundle.

    python is a minor version (`3.13`) other than the target's; target one other than the artifact's, with the same CPU
    features or more; lock another list of wheels than the project's; package how it travels, where not as it fits. An `out` that
    holds an older bundle is replaced only when the new one is whole. Raises ArtifactError for a damaged artifact or an `out` that
    is no bundle, UnsupportedError for a target or Python that does not fit, InputError for an unknown package, BudgetError for one
    beyond the target's limits.
    """
    made_from = manifest.verify(artifact)
    chosen = _target(made_from, target)
    budget.check_asked(package, chosen)  # before minutes of work
    minor = _python(chosen, python)
    cache.refuse_foreign(out, BUNDLE, "bundle")
    interpreter = interpreters.find(minor)
    for words in _warnings(chosen, minor, interpreter):
        progress(f"WARNING: {words}")
    lock = lock or LOCKS / ("runtime.txt" if chosen.system == "lambda" else "container.txt")
    spec = PackagesSpec(lock=lock, platform=chosen.platform, arch=chosen.arch, glibc=chosen.glibc, python=minor, interpreter=interpreter)
    with cache.replacing(out) as work:
        runtime = layers.packages_layer(work, spec, progress)
        code = layers.code_directory(work, made_from.task, interpreter)
        choice = _fitting(made_from, chosen, (runtime, code), package, {"": work, "model/": artifact})
        progress(f"package: {choice.reason}")
        elsewhere = choice.package == "s3"
        fetch = (layers.packages_layer(work, replace(spec, lock=LOCKS / "weights.txt", kind="fetch"), progress),) if elsewhere else ()
        data = layers.tokenizer_layer(work, artifact, made_from), layers.model_layer(work, artifact, made_from, weights=not elsewhere)
        parts = (runtime, *fetch, *data)
        if choice.package == "image":
            images.write(work, chosen, minor)
        made = Bundle(
            target=chosen.name,
            python=minor,
            arch=chosen.arch,
            handler=HANDLER,
            model_id=made_from.model.id,
            model_digest=made_from.digest,
            bytecode=interpreter is not None,
            layers=tuple(part.layer for part in parts),
            code=code.layer,
            task=made_from.task,
            package=choice.package,
            weights=layers.weights_folder(work, artifact).layer if elsewhere else None,
        )
        check_limits(made, chosen, work)
        (work / BUNDLE).write_text(codec.dumps(made), encoding="utf-8")
        (work / LEDGER).write_text(codec.dumps(Ledger.of((*parts, code), chosen, choice.package)), encoding="utf-8")
    progress(f"bundle: {size(made.unzipped_bytes)} unzipped, {size(made.zipped_bytes)} zipped")
    return made


def _warnings(target: Target, minor: str, interpreter: Interpreter | None) -> list[str]:
    """What of the bundle will not be as one would wish."""
    found = []
    if interpreter is None:
        found.append(
            f"no Python {minor} on this machine, so the bundle ships no bytecode and every cold start compiles its modules "
            f"anew. Install Python {minor} (`uv python install {minor}`) and bundle again."
        )
    if target.system == "lambda" and _version(minor) < OLDEST_LAMBDA:
        found.append(
            f"Lambda's Python {minor} is on Amazon Linux 2, whose glibc 2.26 is too old for onnxruntime: the bundle runs here and not "
            f"there. Bundle for {target.python}."
        )
    return found


def _fitting(made_from: Manifest, target: Target, made: Sequence[Part], asked: str | None, places: Mapping[str, Path]) -> Choice:
    """How the artifact travels beside the runtime and the code that are made; where it cannot, the error names the heaviest of `places`."""
    parts = Parts.of(made_from, target.arch)
    manifest_bytes = len(manifest.dumps(made_from).encode())
    parts = replace(parts, artifact=parts.artifact + manifest_bytes, runtime=sum(part.layer.unzipped_bytes for part in made))
    try:
        return budget.choose(parts, target, asked)
    except BudgetError as error:
        heavy = [(count, f"{name}{path}") for name, place in places.items() for path, count in tree.largest(place)]
        lines = "\n".join(f"  {size(count):>11}  {path}" for count, path in sorted(heavy, reverse=True)[:6])
        raise BudgetError(f"{error.message}\nLargest:\n{lines}\n", hint=error.hint) from None


def check_limits(made: Bundle, target: Target, directory: Path) -> None:
    """Raise BudgetError where the bundle in `directory` has more bytes or layers than the target allows; an image has none of them."""
    if made.package == "image":
        return
    most = target.limits.layers
    if most is not None and len(made.layers) > most:
        raise BudgetError(f"the bundle has {len(made.layers)} layers, {target.name} allows {most}.", hint="Attach fewer layers.")
    limit = target.limits.package_bytes
    if limit is None or made.unzipped_bytes <= limit:
        return
    heaviest = "\n".join(f"  {size(count):>11}  {path}" for path, count in tree.largest(directory))
    raise BudgetError(
        f"the bundle has {made.unzipped_bytes:,} bytes unzipped; {target.name} allows {limit:,} over the code and all layers.\n"
        f"{made.unzipped_bytes - limit:,} too many. Largest:\n{heaviest}\n",
        hint="Build with --precision int8, choose a smaller model, or bundle with --package image, which may be larger.",
    )


def _target(made_from: Manifest, given: Target | None) -> Target:
    built_for = targets.load(made_from.target)
    if given is None:
        return built_for
    missing = set(built_for.isa) - set(given.isa)
    if given.arch != built_for.arch or missing:
        lack = f" It lacks {', '.join(sorted(missing))}." if missing else ""
        raise UnsupportedError(
            f"the artifact was built for {built_for.name} ({built_for.arch}) and cannot run on {given.name} ({given.arch}).{lack}",
            hint=f"Build it with --target {given.name}.",
        )
    return given


def _python(target: Target, given: str | None) -> str:
    minor = given or target.python or interpreters.running_minor()
    if not re.fullmatch(r"\d+\.\d+", minor) or _version(minor) < OLDEST:
        raise UnsupportedError(f"Python {minor!r} is not one that hotfoot runs on.", hint="Give a minor version from 3.11, such as 3.13.")
    return minor


def _version(minor: str) -> tuple[int, ...]:
    return tuple(map(int, minor.split(".")))
