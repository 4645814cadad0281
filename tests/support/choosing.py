"""Zero-shot questions to the rigged model, and its answers by label."""

from __future__ import annotations

import math
from typing import Any

from hotfoot.tasks import zero_shot_classification
from support.serving import model

NAME = "zero-shot-classification"
TASK = zero_shot_classification.TASK
LABELS = ["politics", "music", "cooking"]


def softmax(*logits: float) -> list[float]:
    """On paper."""
    total = sum(map(math.exp, logits))
    return [math.exp(x) / total for x in logits]


def ask(inputs: Any = "text", labels: Any = LABELS, **parameters: Any) -> Any:
    """With the label alone as the hypothesis, so that a pair of single words has half of the label's numbers."""
    return model(NAME).predict(inputs, {"candidate_labels": labels, "hypothesis_template": "{}", **parameters}).answer


def scores(answer: list[dict[str, Any]]) -> dict[str, float]:
    """By label."""
    return {a["label"]: a["score"] for a in answer}
