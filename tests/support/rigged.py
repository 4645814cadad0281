"""Real artifacts of a few kilobytes, made by hand, whose answers can be worked out on paper.

The graph looks each token up in a table and, but for tasks that read tokens, averages over the tokens that are neither special nor
padding. So a text of one rigged word has exactly that word's numbers, and two words have their mean. A mask has every word's number.
"""

from __future__ import annotations

import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

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
from support import rigged_text

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
INPUTS = ("input_ids", "attention_mask", "token_type_ids")
EMBEDDERS = ("feature-extraction", "sentence-similarity")
TOKENWISE = ("token-classification", "question-answering", "fill-mask")

# logits over LABELS of each task; unlisted tokens get zeros, in embeddings a random direction
SENTIMENT = {"good": (-2.0, 3.0), "bad": (4.0, -1.0), "fine": (0.0, 1.0)}
ENTITIES = {
    "maria": (0.0, 8.0, 0.0, 0.0, 0.0),
    "gonzalez": (0.0, 0.0, 8.0, 0.0, 0.0),
    "springfield": (0.0, 0.0, 0.0, 8.0, 0.0),
    "lives": (8.0, 0.0, 0.0, 0.0, 0.0),
    "in": (8.0, 0.0, 0.0, 0.0, 0.0),
}
# start and end logits
SPANS = {"springfield": (6.0, 6.0), "paris": (3.0, 3.0), "maria": (1.0, 0.0), "gonzalez": (0.0, 1.0), "where": (9.0, 9.0)}
# contradiction, neutral and entailment of a pair: the mean of both its texts' words, so that one text leaves labels their order
ENTAILED = {
    "music": (-2.0, 0.0, 6.0),
    "cooking": (0.0, 0.0, 4.0),
    "sport": (3.0, 0.0, 5.0),
    "politics": (4.0, 0.0, -4.0),
    **dict.fromkeys(("this", "example", "is"), (0.0, 0.0, 0.0)),
}
LABELS: Mapping[str, tuple[str, ...]] = {
    "text-classification": ("NEGATIVE", "POSITIVE"),
    "token-classification": ("O", "B-PER", "I-PER", "B-LOC", "I-LOC"),
    "feature-extraction": (),
    "sentence-similarity": (),
    "question-answering": (),
    "text-ranking": ("LABEL_0",),
    "fill-mask": (),
    "zero-shot-classification": ("contradiction", "neutral", "entailment"),
    **dict.fromkeys(rigged_text.TASKS, ()),
}
WORDS: Mapping[str, Mapping[str, Sequence[float]]] = {
    "text-classification": SENTIMENT,
    "token-classification": ENTITIES,
    "feature-extraction": {"east": (1, 0, 0, 0), "north": (0, 1, 0, 0), "up": (0, 0, 3, 0), "west": (-1, 0, 0, 0)},
    "sentence-similarity": {"east": (1, 0, 0, 0), "north": (0, 1, 0, 0), "up": (0, 0, 3, 0), "west": (-1, 0, 0, 0)},
    "question-answering": SPANS,
    "text-ranking": {"guitar": (40.0,), "orchestra": (38.0,), "stage": (36.0,), "market": (-14.4,), "query": (0.0,)},
    "fill-mask": {"guitar": (5.0,), "piano": (4.0,), "drum": (3.0,), "##s": (2.0,)},
    "zero-shot-classification": ENTAILED,
}
FACTS: Mapping[str, Mapping[str, Any]] = {
    "text-classification": {"function_to_apply": "softmax"},
    "token-classification": {"words": "pretokenizer"},
    "feature-extraction": {"pooling": "mean", "normalize": True, "prompts": {}, "default_prompt": None},
    "sentence-similarity": {"pooling": "mean", "normalize": True, "prompts": {}, "default_prompt": None},
    "question-answering": {"null_id": SPECIAL.index("[CLS]")},
    "text-ranking": {"function_to_apply": "sigmoid"},
    "fill-mask": {"mask_token": "[MASK]", "mask_id": SPECIAL.index("[MASK]"), "tidies": False},
    "zero-shot-classification": {"entailment": 2, "contradiction": 0},
}


@dataclass(frozen=True)
class Rig:
    """What to rig: numbers of words (None: the task's own), labels, model id, token limit, and the width of embeddings."""

    words: Mapping[str, Sequence[float]] | None = None
    labels: tuple[str, ...] | None = None
    model_id: str = "rigged/tiny"
    max_tokens: int = 64
    width: int = 4
    facts: Mapping[str, Any] = field(default_factory=dict)


def rigged_artifact(directory: Path, task: str, rig: Rig | None = None) -> Path:
    """Write a real artifact for `task` into `directory`, checked whole, and return the directory."""
    rig = rig or Rig()
    if task in rigged_text.TASKS:
        return rigged_text.written(directory, task, rigged_text.Script(limit=512, facts=rig.facts), rig.model_id)
    words = WORDS[task] if rig.words is None else rig.words
    labels = LABELS[task] if rig.labels is None else rig.labels
    tokenizer = wordpiece([*words, "text", "word", "hello", "world"])
    width = {"question-answering": 2, "fill-mask": tokenizer.get_vocab_size()}.get(task, rig.width if task in EMBEDDERS else len(labels))
    (directory / TOKENIZER_DIR).mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(directory / TOKENIZER_DIR / "tokenizer.json"))
    facts = {**FACTS[task], **({"dimensions": width} if task in EMBEDDERS else {}), **rig.facts}
    tokenwise = task in TOKENWISE or facts.get("pooling") == "none"
    graph = graph_of(task, table_of(task, tokenizer, words, width), unit=bool(facts.get("normalize")), tokenwise=tokenwise)
    onnx.save(graph, str(directory / "model.onnx"))
    files = describe(directory / TOKENIZER_DIR, [directory / TOKENIZER_DIR / "tokenizer.json"])
    axes: tuple[int | str, ...] = ("batch", "sequence", width) if tokenwise else ("batch", width)
    manifest = Manifest(
        format=FORMAT,
        model=ModelRef(id=rig.model_id, revision="0" * 40, architecture="RiggedModel", license="apache-2.0", notices=()),
        task=task,
        target=targets.local().name,
        precision="fp32",
        recipe=(),
        graphs=(
            GraphSpec(
                role="model",
                file="model.onnx",
                inputs=tuple(TensorSpec(name, "int32", ("batch", "sequence")) for name in INPUTS),
                outputs=(TensorSpec("output", "float32", axes),),
            ),
        ),
        tokenizer=TokenizerSpec(combine(files), files, pad_id=0, pad_type_id=0, pad_side="right", truncation_side="right"),
        max_tokens=rig.max_tokens,
        labels=labels,
        facts=facts,
        files=describe(directory, [directory / "model.onnx"]),
    )
    (directory / MANIFEST).write_text(dumps(manifest), encoding="utf-8")
    verify(directory)
    return directory


def wordpiece(words: Sequence[str]) -> Tokenizer:
    """A real, lower-casing WordPiece tokenizer of these words, and of letters and digits for all others."""
    characters = [*string.ascii_lowercase, *string.digits]
    pieces = dict.fromkeys([*SPECIAL, *words, *characters, *(f"##{c}" for c in characters), *string.punctuation])
    vocabulary = {piece: index for index, piece in enumerate(pieces)}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.add_special_tokens(list(SPECIAL))
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[(token, vocabulary[token]) for token in ("[CLS]", "[SEP]")],
    )
    return tokenizer


def table_of(task: str, tokenizer: Tokenizer, words: Mapping[str, Sequence[float]], width: int) -> np.ndarray[Any, np.dtype[np.float32]]:
    """One row of numbers a token."""
    size = tokenizer.get_vocab_size()
    table = np.zeros((size, width), dtype=np.float32)
    if task in EMBEDDERS:
        table = np.random.default_rng(0).normal(size=(size, width)).astype(np.float32)
    if task == "fill-mask":
        for word, numbers in words.items():
            table[SPECIAL.index("[MASK]"), tokenizer.token_to_id(word)] = numbers[0]
        return table
    for word, numbers in words.items():
        row = np.zeros(width, dtype=np.float32)
        row[: len(numbers)] = numbers
        table[tokenizer.token_to_id(word)] = row
    return table


def graph_of(task: str, table: np.ndarray[Any, np.dtype[np.float32]], *, unit: bool, tokenwise: bool) -> onnx.ModelProto:
    """Gather, and the mean over words unless the task reads tokens, and `unit` length if it reads vectors."""
    axes: list[int | str] = ["batch", "sequence", table.shape[1]] if tokenwise else ["batch", table.shape[1]]
    weights = np.ones((len(table), 1), dtype=np.float32)
    weights[: len(SPECIAL)] = 0
    weights[SPECIAL.index("[UNK]")] = 1
    constants = {
        "table": table,
        "weights": weights,
        "token_axis": np.array([1], dtype=np.int64),
        "one": np.float32(1),
        "tiny": np.float32(1e-12),
    }
    nodes = [helper.make_node("Gather", ["table", "input_ids"], ["rows"])]
    if tokenwise:
        nodes.append(helper.make_node("Identity", ["rows"], ["output"]))
    else:
        mean = "mean" if task in EMBEDDERS and unit else "output"
        nodes += [
            helper.make_node("Gather", ["weights", "input_ids"], ["kept"]),
            helper.make_node("Transpose", ["kept"], ["across"], perm=[0, 2, 1]),
            # not ReduceSum: over this axis ONNX Runtime adds in another order when the batch is one
            helper.make_node("MatMul", ["across", "rows"], ["sums"]),
            helper.make_node("Squeeze", ["sums", "token_axis"], ["sum"]),
            helper.make_node("ReduceSum", ["kept", "token_axis"], ["count"], keepdims=0),
            helper.make_node("Max", ["count", "one"], ["divisor"]),
            helper.make_node("Div", ["sum", "divisor"], [mean]),
        ]
    if task in EMBEDDERS and unit:
        nodes += [
            helper.make_node("ReduceL2", ["mean"], ["length"], axes=[1], keepdims=1),
            helper.make_node("Max", ["length", "tiny"], ["bounded"]),
            helper.make_node("Div", ["mean", "bounded"], ["output"]),
        ]
    graph = helper.make_graph(
        nodes,
        "rigged",
        [helper.make_tensor_value_info(name, TensorProto.INT32, ["batch", "sequence"]) for name in INPUTS],
        [helper.make_tensor_value_info("output", TensorProto.FLOAT, axes)],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.checker.check_model(model)
    return model
