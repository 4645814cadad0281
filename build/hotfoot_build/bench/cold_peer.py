"""Another way from a text to its vector, as its users take it, run by its path in an environment that has it.

    PEER_PYTHON -P cold_peer.py WAY FOLDER THREADS

WAY is a function below, FOLDER holds the model in the form that it reads, THREADS is 0 for the way's own default. It loads before it
reads; then it takes {"text": …}, answers {"vector": […]} and waits until its input ends, so that it can be looked at from outside.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from typing import Any

Embed = Callable[[str], Any]  # a text -> its vector, an array of one axis


def sentence_transformers(folder: str, threads: int) -> Embed:
    """The original, in PyTorch."""
    import torch
    from sentence_transformers import SentenceTransformer

    if threads:
        torch.set_num_threads(threads)
    model = SentenceTransformer(folder, device="cpu", local_files_only=True)
    return lambda text: model.encode(text, show_progress_bar=False)


def optimum(folder: str, threads: int) -> Embed:
    """The class of optimum over an ONNX file, transformers' tokenizer, and the mean over the tokens by hand."""
    import numpy as np
    from onnxruntime import SessionOptions
    from optimum.onnxruntime import ORTModelForFeatureExtraction
    from transformers import AutoTokenizer

    options = SessionOptions()
    if threads:
        options.intra_op_num_threads = threads
    tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    model = ORTModelForFeatureExtraction.from_pretrained(folder, file_name="model.onnx", session_options=options, local_files_only=True)

    def embed(text: str) -> Any:
        inputs = tokenizer(text, return_tensors="np", truncation=True)
        tokens, mask = model(**inputs).last_hidden_state[0], inputs["attention_mask"][0][:, None]
        mean = (tokens * mask).sum(axis=0) / mask.sum()
        return mean / np.linalg.norm(mean)

    return embed


def fastembed(folder: str, threads: int) -> Embed:
    """The same ONNX file as a model of the user's own."""
    from fastembed import TextEmbedding  # type: ignore[import-not-found]  # in an environment of its own
    from fastembed.common.model_description import ModelSource, PoolingType  # type: ignore[import-not-found]

    # a source must be named, and with the folder given is never asked
    here = {"sources": ModelSource(hf="local/model"), "dim": 384, "model_file": "model.onnx"}
    TextEmbedding.add_custom_model("local/model", pooling=PoolingType.MEAN, normalization=True, **here)
    model = TextEmbedding("local/model", threads=threads or None, specific_model_path=folder)
    return lambda text: next(iter(model.embed([text])))


WAYS: dict[str, Callable[[str, int], Embed]] = {
    "sentence_transformers": sentence_transformers,
    "optimum": optimum,
    "fastembed": fastembed,
}


def main() -> None:
    """Load, answer each line with a vector, end with the input."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what a library prints must not come between
    way, folder, threads = sys.argv[1:4]
    embed = WAYS[way](folder, int(threads))
    for line in sys.stdin:
        vector = [float(value) for value in embed(json.loads(line)["text"])]
        answers.write(json.dumps({"vector": vector}) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
