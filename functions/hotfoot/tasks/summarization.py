"""Summarization: a shorter text that says what matters of a longer one."""

from __future__ import annotations

from hotfoot.tasks import _text2text

TASK = _text2text.task(
    name="summarization",
    summary="Say in fewer words what a text says.",
    key="summary_text",
    sample=(
        "The tower is 324 metres tall, about the same height as an 81-storey building, and the tallest structure in Paris. Its base is "
        "square, measuring 125 metres on each side. It was the first structure to reach a height of 300 metres."
    ),
)
