"""A real artifact that makes text, whose answers are set by hand: the token after a place is the one that a script has there.

A decoder alone begins the script after a prompt of one token, whatever it is, and after one of n tokens with the script's n-th. A
decoder behind an encoder begins it at the beginning.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from hotfoot import targets
from hotfoot.contract.manifest import (
    FORMAT,
    MANIFEST,
    TOKENIZER_DIR,
    GraphSpec,
    Manifest,
    ModelRef,
    TensorSpec,
    TokenizerSpec,
    combine,
    describe,
    dumps,
    verify,
)
from hotfoot.model import Model

END = "</s>"
LIMIT = 64
NEXT_BEST = 0.5  # of the likeliest token's score
TASKS = ("text-generation", "summarization", "translation")
KINDS = {"int32": TensorProto.INT32, "float32": TensorProto.FLOAT}
PARTS = ("key", "value")


@dataclass(frozen=True)
class Script:
    """What comes, byte by byte; then the token that ends. settings: of the model's own for `generate`. facts: other ones."""

    text: str = "and so it goes on."
    settings: Mapping[str, Any] = field(default_factory=dict)
    limit: int = LIMIT
    facts: Mapping[str, Any] = field(default_factory=dict)


def bytes_only() -> Tokenizer:
    """A token a byte, and one that ends."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE({c: i for i, c in enumerate(alphabet)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([END])
    return tokenizer


def opened(directory: Path, script: Script, task: str = "text-generation") -> Model:
    """The artifact, written into `directory` and opened."""
    return Model.open(written(directory, task, script), threads=1)


def written(directory: Path, task: str, script: Script, model_id: str = "rigged/text") -> Path:
    """Write a real artifact for `task` into `directory`, checked whole, and return the directory."""
    tokenizer = bytes_only()
    (directory / TOKENIZER_DIR).mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(directory / TOKENIZER_DIR / "tokenizer.json"))
    end = tokenizer.get_vocab_size() - 1
    graphs = [decoder([*tokenizer.encode(script.text).ids, end], end + 1, script.limit, behind=task != "text-generation")]
    facts: dict[str, Any] = {"generation": {"eos_token_id": [end], **script.settings}}
    if task != "text-generation":
        graphs.append(encoder())
        facts |= {"start": [end], "prefix": "", "target_tokens": script.limit, "pairs": {}}
    for spec, model in graphs:
        onnx.save(model, str(directory / spec.file))
    files = describe(directory / TOKENIZER_DIR, [directory / TOKENIZER_DIR / "tokenizer.json"])
    manifest = Manifest(
        format=FORMAT,
        model=ModelRef(id=model_id, revision="0" * 40, architecture="RiggedModel", license="apache-2.0", notices=()),
        task=task,
        target=targets.local().name,
        precision="fp32",
        recipe=(),
        graphs=tuple(spec for spec, _ in graphs),
        tokenizer=TokenizerSpec(combine(files), files, pad_id=0, pad_type_id=0, pad_side="right", truncation_side="right"),
        max_tokens=script.limit,
        labels=(),
        facts=json.loads(json.dumps({**facts, **script.facts})),
        files=describe(directory, [directory / spec.file for spec, _ in graphs]),
    )
    (directory / MANIFEST).write_text(dumps(manifest), encoding="utf-8")
    verify(directory)
    return directory


def decoder(ids: Sequence[int], vocabulary: int, limit: int, *, behind: bool) -> tuple[GraphSpec, onnx.ModelProto]:
    """Logits by place, and a cache that holds the ids read, so that one who loses or doubles a token is found out."""
    scores = np.zeros((limit, vocabulary), np.float32)
    for place in range(limit):
        scores[place, ids[min(place, len(ids) - 1)]] = 8.0
        scores[place, (ids[min(place, len(ids) - 1)] + 1) % vocabulary] = 8.0 * NEXT_BEST
    nodes = [
        helper.make_node("Shape", ["past.0.key"], ["behind"], start=2, end=3),
        helper.make_node("Squeeze", ["behind"], ["past"]),
        helper.make_node("Shape", ["input_ids"], ["new"], start=1, end=2),
        helper.make_node("Squeeze", ["new"], ["tokens"]),
        helper.make_node("Add", ["past", "tokens"], ["total"]),
        helper.make_node("Range", ["past", "total", "one"], ["places"]),
        helper.make_node("Gather", ["scores", "places"], ["rows"]),
        helper.make_node("Unsqueeze", ["rows", "first"], ["logits"]),
        helper.make_node("Cast", ["input_ids"], ["floats"], to=TensorProto.FLOAT),
        helper.make_node("Unsqueeze", ["floats", "outer"], ["kept"]),
        *(helper.make_node("Concat", [f"past.0.{part}", "kept"], [f"present.0.{part}"], axis=2) for part in PARTS),
    ]
    constants = {"one": np.int64(1), "first": np.array([0]), "outer": np.array([1, 3]), "scores": scores}
    inputs = [TensorSpec("input_ids", "int32", ("batch", "sequence"))]
    inputs += [TensorSpec(f"past.0.{part}", "float32", ("batch", 1, "past", 1)) for part in PARTS]
    if behind:
        inputs += [TensorSpec("encoder_attention_mask", "int32", ("batch", "source"))]
        inputs += [TensorSpec(f"cross.0.{part}", "float32", ("batch", 1, "source", 1)) for part in PARTS]
    outputs = [TensorSpec("logits", "float32", ("batch", "sequence", vocabulary))]
    outputs += [TensorSpec(f"present.0.{part}", "float32", ("batch", 1, "total", 1)) for part in PARTS]
    return made("decoder", nodes, inputs, outputs, constants)


def encoder() -> tuple[GraphSpec, onnx.ModelProto]:
    """The ids, as if they were what attention reads."""
    nodes = [
        helper.make_node("Cast", ["input_ids"], ["floats"], to=TensorProto.FLOAT),
        *(helper.make_node("Unsqueeze", ["floats", "outer"], [f"cross.0.{part}"]) for part in PARTS),
    ]
    inputs = [TensorSpec(name, "int32", ("batch", "source")) for name in ("input_ids", "attention_mask")]
    outputs = [TensorSpec(f"cross.0.{part}", "float32", ("batch", 1, "source", 1)) for part in PARTS]
    return made("encoder", nodes, inputs, outputs, {"outer": np.array([1, 3])})


def made(
    role: str, nodes: Sequence[onnx.NodeProto], inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec], constants: Mapping[str, Any]
) -> tuple[GraphSpec, onnx.ModelProto]:
    """A graph and its door."""
    into, out = ([helper.make_tensor_value_info(t.name, KINDS[t.dtype], t.shape) for t in specs] for specs in (inputs, outputs))
    weights = [numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()]
    graph = helper.make_graph(nodes, role, into, out, weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    return GraphSpec(role, f"{role}.onnx", tuple(inputs), tuple(outputs)), model
