"""Runs in the export environment, by its path: the original model in PyTorch, as its users run it, told what to do over pipes.

    EXPORT_PYTHON -P torch_peer.py MODEL AUTO_CLASS THREADS

Takes {"feeds": [[[id, …], …], …]}, then {"run": INDEX}, whose answer has the `cpu` and `wall` seconds of that run.
"""

from __future__ import annotations

import json
import os
import sys
import time
import warnings
from typing import Any


def main() -> None:
    """Load the model, then answer line by line until the input ends."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what a library prints must not come between
    os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_OFFLINE="1", TRANSFORMERS_VERBOSITY="error")
    warnings.filterwarnings("ignore")
    import torch
    import transformers

    path, auto_class, threads = sys.argv[1:4]
    torch.set_num_threads(int(threads))
    model = getattr(transformers, auto_class).from_pretrained(path, dtype=torch.float32).eval()
    feeds: list[dict[str, Any]] = []
    for line in sys.stdin:
        message = json.loads(line)
        answer = {}
        if "feeds" in message:
            rows = [torch.tensor(ids) for ids in message["feeds"]]
            feeds = [{"input_ids": ids, "attention_mask": torch.ones_like(ids)} for ids in rows]
        else:
            wall, cpu = time.perf_counter(), time.process_time()
            with torch.inference_mode():
                model(**feeds[message["run"]])
            answer = {"cpu": time.process_time() - cpu, "wall": time.perf_counter() - wall}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
