"""From what the user calls a model to a folder that cannot change under the build: a commit, or the hash of local files."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from hotfoot.contract.errors import InputError, UnsupportedError
from hotfoot.contract.manifest import ModelRef, combine, describe
from hotfoot_build import model_files
from hotfoot_build.progress import size

if TYPE_CHECKING:
    from hotfoot_build.hub import Commit

Kind = Literal["hub", "folder", "onnx"]
Progress = Callable[[str], None]


@dataclass(frozen=True)
class Snapshot:
    """A model at rest. `path` may hold more than the build may read: `files`, relative and sorted, is all of that.

    onnx_file is set for kind `onnx`; pickled says that reading the weights unpickles; fast_tokenizer that `tokenizer.json`
    is there; remote_code lists the classes of the model's own Python files that were allowed to run.
    """

    path: Path
    model: ModelRef
    kind: Kind
    files: tuple[str, ...]
    onnx_file: str | None
    pickled: bool
    fast_tokenizer: bool
    remote_code: tuple[str, ...]


def resolve(
    model: str,
    *,
    revision: str | None,
    cache_dir: Path | None,
    allow_pickle: bool,
    trust_remote_code: bool,
    name: str | None,
    progress: Progress,
) -> Snapshot:
    """Pin `model`: a hub's `org/name`, a folder, or an .onnx file with config.json and tokenizer.json beside or above it.

    revision: a branch, tag or commit on the hub (default `main`); for local files the `sha256:…` that they must have.
    name: the id of a local model (default: its folder's name); a hub's model keeps its own.
    What exists here wins over the hub. Raises InputError (no such model or revision, no access), UnsupportedError
    (pickles, remote code, not text), ArtifactError (damaged files), OverloadedError (the hub did not answer).
    """
    local = Path(model).expanduser()
    options = _Options(allow_pickle=allow_pickle, trust_remote_code=trust_remote_code)
    if not local.exists():
        if model.startswith((".", "/", "~")) or model.endswith(".onnx"):
            raise InputError(f"there is no file or folder {model}.", hint="Give ORG/NAME, a folder, or an .onnx file.")
        return _from_hub(model, revision or "main", cache_dir, options, progress)
    if local.is_dir():
        snapshot = _from_folder(local, name, options)
    elif local.suffix == ".onnx":
        snapshot = _from_onnx(local, name)
    else:
        raise InputError(f"{model} is a file, but not an .onnx file.", hint="Give the folder that holds config.json and the weights.")
    if revision not in {None, snapshot.model.revision}:
        raise InputError(
            f"{model} lies here and has revision {snapshot.model.revision}, not {revision}.",
            hint="Leave --revision out; if you mean the hub's model, run where no folder has its name.",
        )
    progress(f"reading {snapshot.path} in place, {snapshot.model.revision}")
    return snapshot


@dataclass(frozen=True)
class _Options:
    allow_pickle: bool
    trust_remote_code: bool


def _from_hub(repo: str, revision: str, cache_dir: Path | None, options: _Options, progress: Progress) -> Snapshot:
    from hotfoot_build import hub

    cache_dir = cache_dir or hub.default_cache()
    commit = hub.pin(repo, revision, cache_dir, progress)
    progress(f"{repo}@{revision} is commit {commit.sha}")
    _require_config(repo, commit.files)
    first = model_files.small(commit.files, code=options.trust_remote_code)
    # the small files first: what they rule out must not cost gigabytes
    path = hub.fetch(commit, first, cache_dir, progress)
    planned = _plan(repo, path, commit.files, first, options)
    wanted = [n for n in planned.files if not hub.is_cached(commit, n, cache_dir)]
    if wanted:
        progress(f"fetching {len(wanted)} files, {_size(commit, wanted)}")
    path = hub.fetch(commit, planned.files, cache_dir, progress)
    if wanted:
        progress(f"fetched {len(wanted)} files, {_size(commit, wanted)}")
    return _snapshot(path, "hub", repo, commit.sha, planned)


def _from_folder(folder: Path, name: str | None, options: _Options) -> Snapshot:
    path = folder.resolve()
    model = name or path.name
    names = list(_listing(path, "", deep=False))
    _require_config(str(folder), names)
    names += _inner_names(path, names)
    first = model_files.small(names, code=options.trust_remote_code)
    _require_whole(path, first)
    planned = _plan(model, path, names, first, options)
    _require_whole(path, planned.files)
    return _snapshot(path, "folder", model, "", planned)


def _inner_names(path: Path, names: Iterable[str]) -> Iterator[str]:
    """Names in the folders that may be read: chat templates and sentence-transformers modules, not a training run's checkpoints."""
    _require_whole(path, [n for n in names if n == model_files.MODULES])
    yield from _listing(path / "additional_chat_templates", "additional_chat_templates/", deep=False)
    for folder in sorted({folder for folder, _ in model_files.modules(path) if folder}):
        yield from _listing(path / folder, f"{folder}/", deep=True)


@dataclass(frozen=True)
class _Plan:
    architecture: str
    files: tuple[str, ...]
    pickled: bool
    remote_code: tuple[str, ...]


def _plan(model: str, path: Path, names: Iterable[str], first: tuple[str, ...], options: _Options) -> _Plan:
    """What to read of a model, after its small files have been looked at."""
    every = tuple(names)
    architecture = model_files.architecture(model, path, every)
    code = model_files.remote_code(path)
    _check_code(model, code, options)
    folders = [folder for folder, _ in model_files.modules(path) if folder]
    weights = model_files.weights(model, every, folders, allow_pickle=options.allow_pickle)
    extra = (n for folder in folders for n in model_files.module_files(every, folder))
    return _Plan(architecture, tuple(sorted({*first, *extra, *weights.files})), weights.pickled, code)


def _check_code(model: str, code: tuple[str, ...], options: _Options) -> None:
    if code and not options.trust_remote_code:
        raise UnsupportedError(
            f"{model} needs Python code of its own: {', '.join(code)}.",
            hint="Read that code, pin it with --revision COMMIT, and give --trust-remote-code if you trust it.",
        )
    if foreign := [c for c in code if "--" in c]:
        raise UnsupportedError(
            f"{model} takes code out of another repository, at no commit that could be pinned: {', '.join(foreign)}.",
            hint="Copy the model and those files into one folder, drop `REPOSITORY--` in its auto_map, and build the folder.",
        )


def _snapshot(path: Path, kind: Kind, model: str, commit: str, planned: _Plan, onnx_file: str | None = None) -> Snapshot:
    from hotfoot_build.hub import license_of

    model_files.check_shards(path, planned.files)
    revision = commit or "sha256:" + combine(describe(path, (path / n for n in planned.files)))
    notices = tuple(n for n in planned.files if model_files.is_notice(n))
    ref = ModelRef(model, revision, planned.architecture, license_of(path / model_files.CARD), notices)
    fast = "tokenizer.json" in planned.files
    return Snapshot(path, ref, kind, planned.files, onnx_file, planned.pickled, fast, planned.remote_code)


def _require_config(model: str, names: Iterable[str]) -> None:
    here = set(names)
    if model_files.CONFIG in here:
        return
    hint = "Give a model as transformers' save_pretrained writes it."
    if "adapter_config.json" in here:
        hint = "It is an adapter: merge it into its base model with peft's merge_and_unload, save that, and build the folder."
    raise UnsupportedError(f"{model} has no config.json.", hint=hint)


def _listing(folder: Path, prefix: str, *, deep: bool) -> Iterator[str]:
    """Names of the files, broken links too, without what is hidden."""
    for base, folders, files in os.walk(folder):
        folders[:] = sorted(f for f in folders if not f.startswith(".")) if deep else []
        inner = Path(base).relative_to(folder)
        for file in (inner / f for f in files if not f.startswith(".")):
            if (folder / file).is_file() or (folder / file).is_symlink():
                yield prefix + file.as_posix()


def _require_whole(path: Path, names: Iterable[str]) -> None:
    if broken := [n for n in names if not (path / n).is_file()]:
        raise InputError(f"{path}: missing, or a link that leads nowhere: {', '.join(broken)}.", hint="Copy the real files there.")


def _size(commit: Commit, names: Iterable[str]) -> str:
    return size(sum(commit.files[n] for n in names))


def _from_onnx(file: Path, name: str | None) -> Snapshot:
    """A graph that someone else exported; its id, config and tokenizer are those of its folder or of the one above."""
    from hotfoot_build.onnx_data import external_data

    # the folder is resolved, the file is not: a hub's cache links a graph to a blob that has neither name nor neighbours
    file = file.parent.resolve() / file.name
    needed = (model_files.CONFIG, "tokenizer.json")
    root = next((f for f in (file.parent, file.parent.parent) if all((f / n).is_file() for n in needed)), None)
    if root is None:
        raise UnsupportedError(
            f"{file.name} needs config.json and tokenizer.json beside it or in the folder above.", hint=f"Copy them to {file.parent}."
        )
    names = list(_listing(root, "", deep=False))
    names += _inner_names(root, names)
    inside = file.relative_to(root)
    data = [(inside.parent / n).as_posix() for n in external_data(file)]
    facts = [n for folder, _ in model_files.modules(root) if folder for n in model_files.module_files(names, folder)]
    files = tuple(sorted({*model_files.small(names), *facts, inside.as_posix(), *data}))
    _require_whole(root, files)
    model = name or root.name
    planned = _Plan(model_files.architecture(model, root, names), files, pickled=False, remote_code=())
    return _snapshot(root, "onnx", model, "", planned, inside.as_posix())
