"""Runs in the export environment: the original model in, an ONNX graph and its own answers out.

With export_generative.py, export_pairs.py and export_answers.py, which it calls for models that make text, the only file that imports
torch, transformers, optimum and sentence-transformers.

    python -m hotfoot_build.export REQUEST.json OUT

Progress goes to standard output, a JSON line each; an error that the user can act on is the last of them.
"""

from __future__ import annotations

import inspect
import json
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hotfoot.contract import codec
from hotfoot.contract.errors import HotfootError, UnsupportedError
from hotfoot.task import Array, everything
from hotfoot.tasks._tokens import masked
from hotfoot_build import export_answers, export_generative, export_pairs
from hotfoot_build.exchange import ARRAYS, GRAPH, GRAPHS, HEAD, RESULT, TOKENIZER, ExportRequest, ExportResult, Reference

OPSET = 18  # what optimum recommends at least; ONNX Runtime has had it since 1.14
BATCH_TOKENS = 4096  # padded tokens a run of the original


def main(arguments: Sequence[str]) -> int:
    """Read the request, write the files, report; 0 when done."""
    # models come as pinned files: a look at the hub could only bring something else
    os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_OFFLINE="1", TOKENIZERS_PARALLELISM="false", TRANSFORMERS_VERBOSITY="error")
    warnings.filterwarnings("ignore")
    request_path, out = Path(arguments[0]), Path(arguments[1])
    request = codec.loads(ExportRequest, request_path.read_text(encoding="utf-8"), request_path.name)
    try:
        _export(request, out)
    except HotfootError as error:
        _say(error=error.kind, message=error.message, hint=error.hint)
        return 1
    return 0


def _say(**fields: Any) -> None:
    sys.stdout.write(json.dumps(fields) + "\n")
    sys.stdout.flush()


def _export(request: ExportRequest, out: Path) -> None:
    _say(step="loading the original model")
    tokenizer = _load_tokenizer(request)
    model = _load_model(request)
    _say(step="tracing the graph")
    _write_graph(model, request, out)
    tokenizer.backend_tokenizer.save(str(out / TOKENIZER))
    request = _with_masks(tokenizer, request)
    ids = _token_ids(tokenizer, request)
    outputs, targets = _ask(model, tokenizer, request, ids, out)
    Reference(tuple(outputs), tuple(ids), tuple(targets)).save(out / ARRAYS)
    packages = ("torch", "transformers", "optimum", "optimum-onnx", "tokenizers", "sentence-transformers")
    result = ExportResult(
        pad_id=tokenizer.pad_token_id,
        pad_side=tokenizer.padding_side,
        truncation_side=tokenizer.truncation_side,
        versions={name: version(name) for name in packages},
        special={name: token for name, token in tokenizer.special_tokens_map.items() if isinstance(token, str)},
        tidies=bool(tokenizer.clean_up_tokenization_spaces),
    )
    (out / RESULT).write_text(codec.dumps(result), encoding="utf-8")


def _load_tokenizer(request: ExportRequest) -> Any:
    from transformers import AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(request.model_path, use_fast=True, trust_remote_code=request.trust_remote_code)
    except (ImportError, KeyError, OSError, TypeError, ValueError) as error:
        message = f"transformers cannot load the model's tokenizer: {str(error).strip().splitlines()[0]}"
        raise UnsupportedError(message, hint="A tokenizer.json beside the model's files would do.") from error
    if not tokenizer.is_fast:
        message = f"{type(tokenizer).__name__} has no fast form, so no tokenizer.json can be made of it."
        raise UnsupportedError(message, hint="Convert it, or use a model of the same family that has a tokenizer.json.")
    return tokenizer


def _load_model(request: ExportRequest) -> Any:
    import torch
    import transformers

    auto = getattr(transformers, request.auto_class)
    try:
        # eager attention traces to plain products, without SDPA's branches for masks that never come
        model, report = auto.from_pretrained(
            request.model_path,
            attn_implementation="eager",
            torch_dtype=torch.float32,
            use_safetensors=None if request.pickled else True,  # a module's weights may be the only ones that are pickled
            trust_remote_code=request.trust_remote_code,
            output_loading_info=True,
        )
    except (OSError, ValueError, KeyError) as error:
        raise UnsupportedError(f"transformers cannot load the model as {request.auto_class}: {error}") from error
    # a pooler that the task does not read may be absent; a head may not, as random weights would answer
    missing = sorted(k for k in report["missing_keys"] if "pooler" not in k)
    if missing:
        hint = "The checkpoint was trained for another task; choose the --task that it was made for."
        raise UnsupportedError(f"the weights lack {', '.join(missing[:5])}, which {request.auto_class} needs.", hint=hint)
    return model.eval()


def _ask(model: Any, tokenizer: Any, request: ExportRequest, ids: Sequence[NDArray[np.int64]], out: Path) -> tuple[list[Array], list[Any]]:
    """The original's answers, and of an encoder-decoder the targets that they are about."""
    if request.sentence_transformer:
        return _sentence_vectors(request, ids, out), []
    if request.family == "encoder":
        return _run_original(model, tokenizer, request, ids), []

    def say(done: int) -> None:
        _say(step="asking the original", done=done, total=len(request.texts))

    texts = ids[: len(request.texts)]
    targets = export_answers.targets(model, texts, say) if request.family == "encoder-decoder" else []
    return export_answers.answers(model, texts, targets, _probe(request), say), targets


def _write_graph(model: Any, request: ExportRequest, out: Path) -> None:
    if request.family == "decoder":
        export_generative.write_decoder(model, out / GRAPHS["decoder"]["decoder"], OPSET)
        return
    if request.family == "encoder-decoder":
        export_pairs.write_pair(model, out, OPSET)
        return
    from optimum.exporters.onnx import onnx_export_from_model

    try:
        onnx_export_from_model(
            model, output=out, task=request.optimum_task, opset=OPSET, do_validation=False, library_name="transformers", preprocessors=None
        )
    except (ValueError, KeyError, NotImplementedError) as error:
        name = type(model).__name__
        raise UnsupportedError(f"optimum cannot export {name} for {request.optimum_task}: {error}") from error
    if not (out / GRAPH).is_file():
        found = ", ".join(sorted(p.name for p in out.glob("*.onnx"))) or "none"
        raise UnsupportedError(f"the export of {type(model).__name__} made no single graph; it made: {found}.")


def _with_masks(tokenizer: Any, request: ExportRequest) -> ExportRequest:
    if not request.masks:
        return request
    if tokenizer.mask_token is None:
        raise UnsupportedError(
            "the model's tokenizer has no mask token, so there is no place to fill.", hint="Is it a masked language model?"
        )
    return replace(request, texts=tuple(masked(text, tokenizer.mask_token) for text in request.texts))


def _token_ids(tokenizer: Any, request: ExportRequest) -> list[NDArray[np.int64]]:
    if request.seconds:
        _check_room(tokenizer, request)
    encoded = _encode(tokenizer, request, range(len(request.texts)))["input_ids"]
    encoded += tokenizer(list(request.tokenizer_texts), truncation=True, max_length=request.max_tokens)["input_ids"]
    return [np.asarray(ids, dtype=np.int64) for ids in encoded]


def _check_room(tokenizer: Any, request: ExportRequest) -> None:
    """Raise UnsupportedError where a text that is never cut would leave the other no room."""
    texts = list(dict.fromkeys(request.texts if request.cuts == "second" else request.seconds))
    for text, ids in zip(texts, tokenizer(texts, add_special_tokens=False)["input_ids"], strict=True):
        special = tokenizer.num_special_tokens_to_add(pair=True)
        if len(ids) + special >= request.max_tokens:
            said = f"{text[:60]!r} has {len(ids)} tokens: with {special} special ones it leaves no room for the other text of its pair"
            raise UnsupportedError(f"{said}, as the limit is {request.max_tokens}.", hint="Build with a higher --max-tokens.")


def _encode(tokenizer: Any, request: ExportRequest, members: Sequence[int], **options: Any) -> Any:
    """Some of the request's texts or pairs; of a pair the text is cut that the request says."""
    texts = [request.texts[i] for i in members]
    if not request.seconds:
        return tokenizer(texts, truncation=True, max_length=request.max_tokens, **options)
    seconds = [request.seconds[i] for i in members]
    return tokenizer(texts, seconds, truncation=f"only_{request.cuts}", max_length=request.max_tokens, **options)


def _probe(request: ExportRequest) -> Callable[[NDArray[np.int64], Array], Array]:
    """What is kept of an output, given the text's ids."""
    module, _, name = request.probe.partition(":")
    found: Callable[[NDArray[np.int64], Array], Array] = getattr(import_module(module), name) if module else everything
    return found


def _sentence_vectors(request: ExportRequest, ids: Sequence[NDArray[np.int64]], out: Path) -> list[Array]:
    """The vectors that the sentence-transformers library itself makes of the model, whose dense modules' weights go to `out`."""
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(
        request.model_path,
        device="cpu",
        trust_remote_code=request.trust_remote_code,
        local_files_only=True,
        model_kwargs={"use_safetensors": None if request.pickled else True, "torch_dtype": "float32"},
    )
    model.truncate_dim = None  # it is the runtime that cuts vectors, where it is asked to
    dense = [(place, module) for place, module in enumerate(model) if type(module).__name__ == "Dense"]
    arrays = {f"{place}.{name}": value.numpy() for place, module in dense for name, value in module.linear.state_dict().items()}
    np.savez(out / HEAD, allow_pickle=False, **arrays)
    if model.max_seq_length is None or request.max_tokens < model.max_seq_length:
        model.max_seq_length = request.max_tokens  # otherwise its own limit stands, so that a misread one shows
    vectors: list[Array] = []
    for start in range(0, len(request.texts), 64):
        # an empty prompt: the texts come with theirs, or without
        part = list(request.texts[start : start + 64])
        vectors += list(model.encode(part, prompt="", batch_size=16, show_progress_bar=False, convert_to_numpy=True))
        _say(step="asking the original", done=len(vectors), total=len(request.texts))
    probe = _probe(request)
    return [probe(row, vector) for row, vector in zip(ids, vectors, strict=False)]


def _run_original(model: Any, tokenizer: Any, request: ExportRequest, ids: Sequence[NDArray[np.int64]]) -> list[Array]:
    import torch

    probe = _probe(request)
    outputs: list[Array | None] = [None] * len(request.texts)
    accepted = inspect.signature(model.forward).parameters  # a tokenizer may make token_type_ids for a model that takes none
    done = 0
    # with masks each token has a score for every word of the vocabulary
    most = BATCH_TOKENS // 8 if request.masks else BATCH_TOKENS
    for members in _batches([len(i) for i in ids[: len(request.texts)]], most):
        batch = _encode(tokenizer, request, members, return_tensors="pt", padding=True)
        with torch.no_grad():
            said = model(**{k: v for k, v in batch.items() if k in accepted})
        values = getattr(said, request.output)
        if request.beside:
            values = torch.stack([values, *(getattr(said, name) for name in request.beside)], dim=-1)
        for row, mask, index in zip(_pool(values, batch["attention_mask"], request), batch["attention_mask"], members, strict=True):
            outputs[index] = probe(ids[index], (row[mask.bool()] if row.dim() == 2 else row).numpy())
        done += len(members)
        _say(step="asking the original", done=done, total=len(outputs))
    return [o for o in outputs if o is not None]


def _pool(values: Any, mask: Any, request: ExportRequest) -> Any:
    """Token vectors as the request's embedding facts say; other outputs as they are."""
    import torch

    facts = request.embedding or {}
    pooling = facts.get("pooling", "none")
    if pooling == "none":
        return values
    real = mask.unsqueeze(-1)
    pooled = {
        "mean": lambda: (values * real).sum(1) / real.sum(1),
        "max": lambda: values.masked_fill(real == 0, torch.finfo(values.dtype).min).max(1).values,
        "cls": lambda: values[torch.arange(len(values)), mask.argmax(1)],
        "last": lambda: values[torch.arange(len(values)), mask.shape[1] - 1 - mask.flip(1).argmax(1)],
    }[pooling]()
    return torch.nn.functional.normalize(pooled, dim=-1) if facts.get("normalize") else pooled


def _batches(lengths: Sequence[int], most: int) -> Iterator[list[int]]:
    """Indices by length, so that little padding is computed: `most` padded tokens at once, unless one text has more."""
    batch: list[int] = []
    for index in sorted(range(len(lengths)), key=lambda i: lengths[i]):
        if batch and (len(batch) + 1) * lengths[index] > most:
            yield batch
            batch = []
        batch.append(index)
    if batch:
        yield batch


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
