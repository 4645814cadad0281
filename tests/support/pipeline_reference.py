"""What the token-classification pipeline of transformers answers. Run by the export environment's Python: REQUEST.json ANSWER.json.

Stands on its own: nothing of hotfoot, nothing of the main environment.
"""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path
from typing import Any


def main(request_path: Path, answer_path: Path) -> None:
    import torch
    from transformers import BertConfig, BertForTokenClassification, PreTrainedTokenizerFast, TokenClassificationPipeline

    warnings.simplefilter("ignore")
    request = json.loads(request_path.read_text(encoding="utf-8"))
    torch.set_num_threads(1)  # the model is tiny: more would only wait for one another
    torch.manual_seed(request["seed"])
    config = BertConfig(
        vocab_size=request["vocabulary"],
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=request["max_tokens"],
        initializer_range=0.5,  # strong enough that every label is some token's
        id2label=dict(enumerate(request["labels"])),
    )
    model = BertForTokenClassification(config).eval()
    tokenizer = PreTrainedTokenizerFast(tokenizer_file=request["tokenizer"], model_max_length=request["max_tokens"], **request["special"])
    with torch.no_grad():
        # no label may be the favourite of a random model everywhere
        model.classifier.bias -= torch.cat([model(torch.tensor([ids])).logits[0] for ids in request["windows"]]).mean(0)
        logits = [model(torch.tensor([ids])).logits[0].tolist() for ids in request["windows"]]
    answers = []
    for parameters in request["parameters"]:
        pipeline: Any = TokenClassificationPipeline(model=model, tokenizer=tokenizer, device="cpu", **parameters)
        answers.append([[plain(e) for e in pipeline(text)] for text in request["texts"]])
    answer_path.write_text(json.dumps({"logits": logits, "answers": answers}), encoding="utf-8")


def plain(entity: dict[str, Any]) -> dict[str, Any]:
    """The entity as JSON."""
    return {**entity, "score": float(entity["score"])}


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
