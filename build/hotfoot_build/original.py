"""The original model's graph and answers: from the export environment, or from an ONNX file that the user brings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
from tokenizers import Tokenizer

from hotfoot.contract import codec
from hotfoot.contract.errors import HotfootError, PassError, UnsupportedError
from hotfoot.contract.manifest import combine, describe
from hotfoot.task import Array, Task
from hotfoot_build import cache, environment, facts, graph
from hotfoot_build.calibrate import TOKENIZER_TEXTS
from hotfoot_build.exchange import ARRAYS, GRAPH, RESULT, TOKENIZER, ExportRequest, ExportResult, Reference
from hotfoot_build.facts import ModelFacts
from hotfoot_build.resolve import Snapshot

Say = Callable[[str], None]


@dataclass(frozen=True)
class Original:
    """Where the fp32 graph and tokenizer lie, and what the model answers."""

    graph: Path
    tokenizer: Path
    sides: Mapping[str, str]
    pad_id: int | None
    reference: Reference
    versions: Mapping[str, str]


def obtain(snapshot: Snapshot, task: Task, said: ModelFacts, texts: tuple[str, ...], say: Say, *, force: bool = False) -> Original:
    """Export the snapshot, or read the ONNX file that it is; `force` takes no export from the cache.

    Raises what the export or ONNX Runtime finds wrong.
    """
    if snapshot.kind == "onnx":
        return _bring(snapshot, task, said, texts, say)
    pools = (said.embedding or {}).get("pooling", "none") != "none"
    request = ExportRequest(
        model_path=str(snapshot.path),
        auto_class=task.export.auto_class,
        optimum_task=task.export.optimum_task,
        output=task.export.output,
        max_tokens=said.max_tokens,
        embedding=said.embedding,
        sentence_transformer=pools and facts.is_sentence_transformer(snapshot.path),
        pickled=snapshot.pickled,
        trust_remote_code=bool(snapshot.remote_code),
        texts=texts,
        tokenizer_texts=TOKENIZER_TEXTS,
    )
    folder = _export(snapshot, request, say, force=force)
    result = codec.loads(ExportResult, (folder / RESULT).read_text(encoding="utf-8"), RESULT)
    sides = {"padding_side": result.pad_side, "truncation_side": result.truncation_side}
    return Original(folder / GRAPH, folder / TOKENIZER, sides, result.pad_id, Reference.load(folder / ARRAYS), result.versions)


def _export(snapshot: Snapshot, request: ExportRequest, say: Say, *, force: bool) -> Path:
    """The export's folder, from the cache when model, request, exporter and packages are the same."""
    here = Path(__file__).parent
    exporter = combine(describe(here, [here / "export.py", here / "exchange.py"]))
    # where the model lies does not matter, what it holds does
    key = cache.key(snapshot.model.revision, exporter, environment.identity(), codec.dumps({**codec.plain(request), "model_path": ""}))
    folder = cache.root() / "exports" / key
    with cache.using(folder, lambda fresh: environment.run(request, fresh, say), whole=lambda _: not force, say=say):
        return folder


def _bring(snapshot: Snapshot, task: Task, said: ModelFacts, texts: tuple[str, ...], say: Say) -> Original:
    file = snapshot.path / str(snapshot.onnx_file)
    beside = next((p for p in (file.parent, snapshot.path) if (p / TOKENIZER).is_file()), snapshot.path)
    tokenizer = Tokenizer.from_file(str(beside / TOKENIZER))
    tokenizer.no_padding()
    sides = {k: str(v) for k, v in facts.read_json(beside / "tokenizer_config.json").items() if k.endswith("_side")}
    tokenizer.enable_truncation(said.max_tokens, direction=sides.get("truncation_side", "right"))
    ids = [np.asarray(e.ids, np.int64) for e in tokenizer.encode_batch([*texts, *TOKENIZER_TEXTS])]
    types = [np.asarray(e.type_ids, np.int64) for e in tokenizer.encode_batch(list(texts))]
    try:
        session = ort.InferenceSession(str(file), providers=["CPUExecutionProvider"])
        wanted = graph.choose_output([o.name for o in session.get_outputs()], task.export.output)
        outputs = []
        for number, (row, kinds) in enumerate(zip(ids, types, strict=False), 1):
            outputs.append(_ask(session, wanted, row, kinds, said.embedding))
            say(f"asking the original: {number} of {len(texts)}")
    except HotfootError:
        raise
    except Exception as error:  # ORT's own exception types share no public base
        raise PassError(f"ONNX Runtime {ort.__version__} cannot run {file.name}: {error}") from error
    pad_id = said.config.get("pad_token_id")
    return Original(file, beside / TOKENIZER, sides, pad_id, Reference(tuple(outputs), tuple(ids)), {"onnxruntime": ort.__version__})


def _ask(session: ort.InferenceSession, wanted: str, ids: Any, types: Any, embedding: Mapping[str, Any] | None) -> Array:
    """One text, alone and without padding: (tokens, …), or pooled as the embedding facts say."""
    known = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": types}
    unknown = [i.name for i in session.get_inputs() if i.name not in known]
    if unknown:
        raise UnsupportedError(f"the graph wants {', '.join(unknown)}; hotfoot makes {', '.join(known)}.")
    feed = {i.name: known[i.name][None].astype(np.int32 if "int32" in i.type else np.int64) for i in session.get_inputs()}
    output: Array = session.run([wanted], feed)[0][0]
    pooling = (embedding or {}).get("pooling", "none")
    if output.ndim == 2 and pooling != "none":
        output = {"mean": output.mean(0), "max": output.max(0), "cls": output[0], "last": output[-1]}[pooling]
    if embedding and embedding.get("normalize") and output.ndim == 1:
        output = output / np.maximum(np.linalg.norm(output), np.float32(1e-12))
    return output
