"""Ask the original model, in the export environment: the yardstick that the demo and the benchmarks hold hotfoot against.

    EXPORT_PYTHON scripts/original.py TASK MODEL_DIR < TEXTS.json > ANSWERS.json

TEXTS.json is a list of texts. The answer is {"answers": […], "first_cpu_seconds": …, "first_seconds": …}, where first is from
the start of the process to its first answer.
"""

from __future__ import annotations

import json
import os
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

START = time.monotonic()


def embedder(model: str) -> Callable[[str], Any]:
    from sentence_transformers import SentenceTransformer

    transformer = SentenceTransformer(model, device="cpu", local_files_only=True)
    return lambda text: transformer.encode(text, show_progress_bar=False).tolist()


def tagger(model: str) -> Callable[[str], Any]:
    from transformers import pipeline

    found = pipeline("token-classification", model=model, tokenizer=model, aggregation_strategy="first", device="cpu")
    return lambda text: [{**e, "score": float(e["score"])} for e in found(text)]


def main() -> None:
    os.environ.update(HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false", TRANSFORMERS_VERBOSITY="error")
    warnings.filterwarnings("ignore")
    task, model = sys.argv[1:3]
    texts = json.load(sys.stdin)
    answer = {"feature-extraction": embedder, "token-classification": tagger}[task](model)
    first = answer(texts[0])
    times = {"first_cpu_seconds": time.process_time(), "first_seconds": time.monotonic() - START}
    answers = [first, *map(answer, texts[1:])]
    json.dump({"answers": answers, **times}, sys.stdout)


if __name__ == "__main__":
    main()
