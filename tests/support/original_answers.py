"""What transformers' pipelines and sentence-transformers' CrossEncoder answer.

Run by the export environment's Python: JOBS.json ANSWERS.json. A job is a task, a model's folder, the most tokens of an input where
the model's files do not say, inputs, and a list of parameters that each input is asked with. Stands on its own: nothing of hotfoot,
nothing of the main environment.
"""

from __future__ import annotations

import inspect
import json
import sys
import warnings
from pathlib import Path
from typing import Any


def main(jobs_path: Path, answers_path: Path) -> None:
    import torch

    warnings.simplefilter("ignore")
    torch.set_num_threads(1)  # the models are tiny: more would only wait for one another
    jobs = json.loads(jobs_path.read_text(encoding="utf-8"))
    answers = [
        [[ask(job["task"], model, i, p) for i in job["inputs"]] for p in job["parameters"]] for job in jobs for model in [opened(job)]
    ]
    answers_path.write_text(json.dumps(answers), encoding="utf-8")


def opened(job: dict[str, Any]) -> Any:
    """The job's model, in the library's own hands."""
    if job["task"] == "text-ranking":
        from sentence_transformers import CrossEncoder

        return CrossEncoder(job["model"], device="cpu", local_files_only=True)
    from transformers import pipeline

    made = pipeline(job["task"], job["model"], device="cpu")
    taken = inspect.signature(made.model.forward).parameters  # a tiny model may share its tokenizer with one of another kind
    made.tokenizer.model_input_names = [name for name in made.tokenizer.model_input_names if name in taken]
    made.tokenizer.model_max_length = job["max_tokens"] or made.tokenizer.model_max_length
    return made


def ask(task: str, model: Any, inputs: Any, parameters: dict[str, Any]) -> Any:
    """One answer as JSON."""
    if task == "text-ranking":
        found = model.rank(inputs["query"], inputs["texts"], show_progress_bar=False, **parameters)
        return [{"index": f["corpus_id"], "score": float(f["score"])} for f in found]
    named = isinstance(inputs, dict) and task != "text-classification"  # which takes a pair of texts as one object
    return model(**inputs, **parameters) if named else model(inputs, **parameters)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
