"""Which files of a model the build reads: pure choices over names, the same for a hub's commit and a local folder."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import Any

from hotfoot.contract.errors import ArtifactError, UnsupportedError

CONFIG, CARD, MODULES, SHARDS = "config.json", "README.md", "modules.json", "model.safetensors.index.json"
TOKENIZER = ("tokenizer*.json", "vocab*.json", "vocab*.txt", "merges*.txt", "*.spm", "*.model", "*.tiktoken", "bpe.codes")
SMALL = (
    CONFIG,
    CARD,
    MODULES,
    "config_*.json",
    "sentence_*_config.json",
    "generation_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "chat_template*",
    "additional_chat_templates/*.jinja",
    *TOKENIZER,
)
NOTICE = re.compile(r"(licen[sc]e|notice|copying)([-._ ].*)?", re.IGNORECASE)
SHARD = re.compile(r"model-\d+-of-\d+\.safetensors")
# what transformers can load from a pickle; a stray optimizer.pt or training_args.bin is nobody's weights
PICKLE = re.compile(r"pytorch_model(-\d+-of-\d+)?\.bin|pytorch_model\.bin\.index\.json")
WEIGHTS = (".safetensors", ".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle", ".joblib", ".h5", ".msgpack", ".onnx", ".gguf", ".ot")
# no list of text architectures could be complete, so these are the ones that read something else
NOT_TEXT = re.compile(r"Image|Vision|Video|Audio|Speech|ForCTC|Whisper|Wav2Vec|Hubert|CLIP|ObjectDetection|ViT|Pix2Struct|TimeSeries")


@dataclass(frozen=True)
class Weights:
    """The weight files of a model, and whether reading them unpickles."""

    files: tuple[str, ...]
    pickled: bool


def small(names: Iterable[str], *, code: bool = False) -> tuple[str, ...]:
    """The files beside the weights at a model's root, sorted: configuration, tokenizer, card, notices and, if `code`, modules."""
    patterns = (*SMALL, "*.py") if code else SMALL
    return tuple(sorted(n for n in names if is_notice(n) or _matches(n, patterns)))


def is_notice(name: str) -> bool:
    """A licence or notice file at the root."""
    return bool(NOTICE.fullmatch(name)) and "/" not in name and not name.endswith((*WEIGHTS, ".py", ".json"))


def has_tokenizer(names: Iterable[str]) -> bool:
    """True where one of the names is a tokenizer's, fast or slow."""
    return any(_matches(n, TOKENIZER) for n in names)


def _matches(name: str, patterns: Iterable[str]) -> bool:
    # fnmatch's star crosses slashes: without the count a `checkpoint-1/tokenizer.json` would do
    return any(fnmatchcase(name, p) and name.count("/") == p.count("/") for p in patterns)


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object from a model's file; raises ArtifactError that names the file."""
    return _object(_parse(path), path)


def _parse(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8-sig"))
    except ValueError as error:  # UnicodeDecodeError too
        raise ArtifactError(f"the model's {path.name} is not JSON: {error}.", hint="The model itself is damaged.") from None


def _object(value: Any, path: Path) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ArtifactError(f"the model's {path.name} must hold a JSON object, it holds a {type(value).__name__}")
    return value


def modules(path: Path) -> tuple[tuple[str, str], ...]:
    """(folder, class) of each sentence-transformers module that the snapshot's `modules.json` lists; empty where there is none.

    Raises ArtifactError for an entry that is ill-formed or leaves the snapshot, and for two of one name.
    """
    file = path / MODULES
    if not file.is_file():
        return ()
    entries = _parse(file)
    if not isinstance(entries, list):
        raise ArtifactError(f"the model's {MODULES} must hold a list, it holds a {type(entries).__name__}")
    found = []
    names = [_object(entry, file).get("name") for entry in entries]
    if twice := sorted({str(n) for n in names if n is not None and names.count(n) > 1}):
        raise ArtifactError(f"the model's {MODULES} names two modules {', '.join(twice)}: sentence-transformers would leave one out.")
    for entry in entries:
        folder, kind = _object(entry, file).get("path"), entry.get("type")
        if not isinstance(folder, str) or not isinstance(kind, str) or not is_inside(folder):
            raise ArtifactError(
                f"the model's {MODULES} has an entry without a type and a folder inside the model: {json.dumps(entry)[:120]}"
            )
        found.append((PurePosixPath(folder).as_posix() if PurePosixPath(folder).parts else "", kind))
    return tuple(found)


def is_inside(name: str) -> bool:
    """True for a relative path, with forward slashes, that does not climb out of its folder."""
    path = PurePosixPath(name)
    return not path.is_absolute() and ".." not in path.parts and "\\" not in name and ":" not in name


def remote_code(path: Path) -> tuple[str, ...]:
    """The classes that the model would bring along as Python files, sorted: `auto_map` entries and foreign modules."""
    found: set[str] = set()
    for name in (CONFIG, "tokenizer_config.json"):
        mapping = read_json(path / name).get("auto_map") if (path / name).is_file() else None
        for value in mapping.values() if isinstance(mapping, dict) else ():
            found |= {v for v in (value if isinstance(value, list) else [value]) if isinstance(v, str)}
    return tuple(sorted(found | {kind for _, kind in modules(path) if not kind.startswith("sentence_transformers.")}))


def module_files(names: Iterable[str], folder: str) -> tuple[str, ...]:
    """Everything in a module's folder but weights, hidden files and code."""
    inside = (n for n in names if n.startswith(f"{folder}/") and not any(p.startswith(".") for p in n.split("/")))
    return tuple(sorted(n for n in inside if not n.endswith((*WEIGHTS, ".bin.index.json", SHARDS, ".py"))))


def weights(model: str, names: Iterable[str], folders: Iterable[str], *, allow_pickle: bool) -> Weights:
    """The weight files at the root ("") and in each module folder: safetensors first, pickles only where they are allowed.

    Raises UnsupportedError where the root has none that transformers reads, or a folder has only pickles.
    """
    every = tuple(names)
    chosen: list[str] = []
    pickles: list[str] = []
    for folder in ("", *sorted({f for f in folders if f})):
        prefix = f"{folder}/" if folder else ""
        here = sorted(n.removeprefix(prefix) for n in every if n.startswith(prefix) and "/" not in n.removeprefix(prefix))
        safe = [n for n in here if n == "model.safetensors"]
        if not safe and SHARDS in here:
            safe = [n for n in here if SHARD.fullmatch(n) or n == SHARDS]
        unsafe = [] if safe else [n for n in here if PICKLE.fullmatch(n)]
        if not folder and not safe and not unsafe:
            _refuse_foreign(model, here)
        chosen += [prefix + n for n in safe]
        pickles += [prefix + n for n in unsafe]
    if pickles and not allow_pickle:
        raise UnsupportedError(
            f"{model} has weights only as Python pickles: {', '.join(pickles)}.",
            hint="Reading a pickle runs code. Give a revision that has safetensors, or --allow-pickle if you trust its author.",
        )
    return Weights(tuple(sorted(chosen + pickles)), bool(pickles))


def _refuse_foreign(model: str, here: Iterable[str]) -> None:
    other = [n for n in here if n.endswith(WEIGHTS)]
    raise UnsupportedError(
        f"{model} has no weights that hotfoot can read{': it has ' + ', '.join(other) if other else ''}.",
        hint="It reads model.safetensors, whole or in shards; convert other formats with transformers' save_pretrained.",
    )


def check_shards(path: Path, files: Iterable[str]) -> None:
    """Raises ArtifactError that names every shard which an index lists and the model lacks."""
    here = set(files)
    for index in sorted(n for n in here if n.endswith(SHARDS)):
        mapping = read_json(path / index).get("weight_map")
        folder = index.removesuffix(SHARDS)
        named = {folder + str(n) for n in mapping.values()} if isinstance(mapping, dict) else set()
        if missing := sorted(named - here):
            raise ArtifactError(f"the model's {index} names files that are not there: {', '.join(missing)}")


def architecture(model: str, path: Path, names: Iterable[str]) -> str:
    """The model's class, out of `config.json`; raises UnsupportedError for a model that does not read text."""
    config = read_json(path / CONFIG)
    declared = config.get("architectures")
    if not isinstance(declared, list) or not declared or not isinstance(declared[0], str):
        raise UnsupportedError(
            f"{model}: config.json names no architecture, so it is not known to be a text model.",
            hint='Add "architectures": ["ITS CLASS"] to config.json in a local copy and build that folder.',
        )
    senses = [key for key in ("vision_config", "audio_config") if config.get(key) is not None]
    if NOT_TEXT.search(declared[0]) or senses:
        raise UnsupportedError(
            f"{model} is not a text model: its architecture is {declared[0]}{' with ' + ' and '.join(senses) if senses else ''}."
        )
    if not has_tokenizer(names):
        raise UnsupportedError(
            f"{model} has no tokenizer files, so it is not a text model ({declared[0]}).", hint="Save the tokenizer beside the model."
        )
    return declared[0]
