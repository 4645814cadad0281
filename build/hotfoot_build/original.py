"""The original model's graph and answers: from the export environment, or from an ONNX file that the user brings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
from tokenizers import Tokenizer

from hotfoot import tasks
from hotfoot.contract import codec
from hotfoot.contract.errors import HotfootError, PassError, UnsupportedError
from hotfoot.contract.manifest import combine, describe
from hotfoot.task import Array, Cut, Task
from hotfoot_build import cache, environment, facts, graph
from hotfoot_build.calibrate import TOKENIZER_TEXTS, Samples
from hotfoot_build.exchange import ARRAYS, GRAPHS, HEAD, RESULT, TOKENIZER, ExportRequest, ExportResult, Reference
from hotfoot_build.facts import ModelFacts
from hotfoot_build.resolve import Snapshot

Say = Callable[[str], None]


@dataclass(frozen=True)
class Original:
    """Where the fp32 graph and tokenizer lie, and what the model answers to the samples as it read them.

    special: the special tokens by their names. tidies: decoding takes the spaces before punctuation away. head: weights of the modules
    behind the pooling.
    """

    graph: Path
    tokenizer: Path
    sides: Mapping[str, str]
    pad_id: int | None
    samples: Samples
    reference: Reference
    versions: Mapping[str, str]
    special: Mapping[str, str] = field(default_factory=dict)
    tidies: bool = False
    roles: Mapping[str, Path] = field(default_factory=dict)
    head: Mapping[str, Array] = field(default_factory=dict)

    @property
    def graphs(self) -> Mapping[str, Path]:
        """Every graph by its role; `graph` is the last of them."""
        return self.roles or {"model": self.graph}


def obtain(snapshot: Snapshot, task: Task, said: ModelFacts, samples: Samples, say: Say, *, force: bool = False) -> Original:
    """Export the snapshot, or read the ONNX file that it is; `force` takes no export from the cache.

    Raises what the export or ONNX Runtime finds wrong.
    """
    if snapshot.kind == "onnx":
        return _bring(snapshot, task, said, samples, say)
    request = _request(snapshot, task, said, samples)
    folder = _export(snapshot, request, say, force=force)
    result = codec.loads(ExportResult, (folder / RESULT).read_text(encoding="utf-8"), RESULT)
    sides = {"padding_side": result.pad_side, "truncation_side": result.truncation_side}
    reference = Reference.load(folder / ARRAYS)
    if not request.probe:
        kept = map(task.probe, reference.targets or reference.ids, reference.outputs)
        reference = Reference(tuple(kept), reference.ids, reference.targets)
    if request.masks:
        samples = samples.with_masks(result.special["mask_token"])
    roles = {role: folder / file for role, file in GRAPHS[request.family].items()}
    return Original(
        graph=[*roles.values()][-1],
        tokenizer=folder / TOKENIZER,
        sides=sides,
        pad_id=result.pad_id,
        samples=samples,
        reference=reference,
        versions=result.versions,
        special=result.special,
        tidies=result.tidies,
        roles=roles,
        head=_head(folder),
    )


def _request(snapshot: Snapshot, task: Task, said: ModelFacts, samples: Samples) -> ExportRequest:
    pools = (said.embedding or {}).get("pooling", "none") != "none"
    return ExportRequest(
        model_path=str(snapshot.path),
        auto_class=task.export.auto_class,
        optimum_task=task.export.optimum_task,
        output=task.export.output,
        max_tokens=said.max_tokens,
        embedding=said.embedding,
        sentence_transformer=pools and facts.is_sentence_transformer(snapshot.path),
        pickled=snapshot.pickled,
        trust_remote_code=bool(snapshot.remote_code),
        texts=samples.texts,
        tokenizer_texts=TOKENIZER_TEXTS,
        beside=task.export.beside,
        seconds=samples.seconds,
        cuts=task.cuts,
        masks=task.corpus == "masked",
        probe=_shared_probe(task),
        family=task.export.family,
    )


def _head(folder: Path) -> dict[str, Array]:
    """The weights of an export's dense modules, by their names as vector_head has them."""
    if not (folder / HEAD).is_file():
        return {}
    with np.load(folder / HEAD) as arrays:
        return dict(arrays)


def _shared_probe(task: Task) -> str:
    """The probe's name for the export environment, empty to ask for whole outputs: a user's own module is not there."""
    module = task.probe.__module__
    return f"{module}:{task.probe.__qualname__}" if module.startswith(f"{tasks.__name__}.") else ""


def _export(snapshot: Snapshot, request: ExportRequest, say: Say, *, force: bool) -> Path:
    """The export's folder, from the cache when model, request, exporter and packages are the same."""
    here, probes = Path(__file__).parent, Path(tasks.__path__[0])
    code = ["export.py", "exchange.py"]
    if request.family != "encoder":
        code += ["export_answers.py", "export_generative.py", "export_pairs.py"]
    exporter = combine(describe(here, [here / name for name in code]))
    if request.probe:
        exporter += combine(describe(probes, probes.glob("*.py")))
    # where the model lies does not matter, what it holds does
    key = cache.key(snapshot.model.revision, exporter, environment.identity(), codec.dumps({**codec.plain(request), "model_path": ""}))
    folder = cache.root() / "exports" / key
    with cache.using(folder, lambda fresh: environment.run(request, fresh, say), whole=lambda _: not force, say=say):
        return folder


def _bring(snapshot: Snapshot, task: Task, said: ModelFacts, samples: Samples, say: Say) -> Original:
    if task.export.family != "encoder":
        raise UnsupportedError(f"{task.name} wants a graph with a cache of hotfoot's own making.", hint="Give the model itself.")
    if said.head:
        raise UnsupportedError(
            "modules.json puts modules behind the pooling, whose weights are in no ONNX file.", hint="Give the model's folder instead."
        )
    file = snapshot.path / str(snapshot.onnx_file)
    beside = next((p for p in (file.parent, snapshot.path) if (p / TOKENIZER).is_file()), snapshot.path)
    written = facts.read_json(beside / "tokenizer_config.json")
    sides = {k: str(v) for k, v in written.items() if k.endswith("_side")}
    special = _special_tokens({**facts.read_json(beside / "special_tokens_map.json"), **written})
    if task.corpus == "masked":
        if "mask_token" not in special:
            raise UnsupportedError("tokenizer_config.json and special_tokens_map.json name no mask_token.", hint="Name it there.")
        samples = samples.with_masks(special["mask_token"])
    encoded = _encode(beside / TOKENIZER, samples, task.cuts, said.max_tokens, sides.get("truncation_side", "right"))
    try:
        session = ort.InferenceSession(str(file), providers=["CPUExecutionProvider"])
        wanted = graph.choose_outputs([o.name for o in session.get_outputs()], task.export.output, task.export.beside)
        outputs = []
        for number, (row, kinds) in enumerate(encoded[: len(samples.texts)], 1):
            outputs.append(task.probe(row, _ask(session, wanted, row, kinds, said.embedding)))
            say(f"asking the original: {number} of {len(samples.texts)}")
    except HotfootError:
        raise
    except Exception as error:  # ORT's own exception types share no public base
        raise PassError(f"ONNX Runtime {ort.__version__} cannot run {file.name}: {error}") from error
    return Original(
        graph=file,
        tokenizer=beside / TOKENIZER,
        sides=sides,
        pad_id=said.config.get("pad_token_id"),
        samples=samples,
        reference=Reference(tuple(outputs), tuple(row for row, _ in encoded)),
        versions={"onnxruntime": ort.__version__},
        special=special,
        tidies=bool(written.get("clean_up_tokenization_spaces", False)),
    )


def _special_tokens(written: Mapping[str, Any]) -> dict[str, str]:
    """Special tokens by their names: a file may give their settings along with their content."""
    spelled = {name: token.get("content") if isinstance(token, dict) else token for name, token in written.items()}
    return {name: token for name, token in spelled.items() if name.endswith("_token") and isinstance(token, str)}


def _encode(file: Path, samples: Samples, cuts: Cut, max_tokens: int, side: str) -> list[tuple[Any, Any]]:
    """(ids, type ids) of every sample, of a pair the text cut that `cuts` says, and then of the tokenizer texts."""
    tokenizer = Tokenizer.from_file(str(file))
    tokenizer.no_padding()
    inputs = list(zip(samples.texts, samples.seconds, strict=True)) if samples.seconds else list(samples.texts)
    tokenizer.enable_truncation(max_tokens, strategy=f"only_{cuts}" if samples.seconds else "longest_first", direction=side)
    encoded = tokenizer.encode_batch(inputs)
    tokenizer.enable_truncation(max_tokens, direction=side)
    encoded += tokenizer.encode_batch(list(TOKENIZER_TEXTS))
    return [(np.asarray(e.ids, np.int64), np.asarray(e.type_ids, np.int64)) for e in encoded]


def _ask(session: ort.InferenceSession, wanted: tuple[str, ...], ids: Any, types: Any, embedding: Mapping[str, Any] | None) -> Array:
    """One text, alone and without padding: (tokens, …), or pooled as the embedding facts say; several outputs on a last axis."""
    known = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": types}
    unknown = [i.name for i in session.get_inputs() if i.name not in known]
    if unknown:
        raise UnsupportedError(f"the graph wants {', '.join(unknown)}; hotfoot makes {', '.join(known)}.")
    feed = {i.name: known[i.name][None].astype(np.int32 if "int32" in i.type else np.int64) for i in session.get_inputs()}
    found = [values[0] for values in session.run(list(wanted), feed)]
    output: Array = found[0] if len(found) == 1 else np.stack(found, axis=-1)
    pooling = (embedding or {}).get("pooling", "none")
    if output.ndim == 2 and pooling != "none":
        output = {"mean": output.mean(0), "max": output.max(0), "cls": output[0], "last": output[-1]}[pooling]
    if embedding and embedding.get("normalize") and output.ndim == 1:
        output = output / np.maximum(np.linalg.norm(output), np.float32(1e-12))
    return output
