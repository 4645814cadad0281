"""What the original generative model says of texts. Runs in the export environment, called by export.py."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hotfoot.task import Array

TARGET_TOKENS = 32  # of the original's own answer, which an encoder-decoder is compared on
LOGITS = 1 << 26  # values of one run of the original: 256 MB

Probe = Callable[[NDArray[np.int64], Array], Array]
Ids = Sequence[NDArray[np.int64]]


def targets(model: Any, ids: Ids, say: Callable[[int], None]) -> list[NDArray[np.int64]]:
    """What an encoder-decoder answers each text, greedily and by its logits alone: the start token and up to TARGET_TOKENS more."""
    found: list[NDArray[np.int64]] = [np.zeros(0, np.int64)] * len(ids)
    done = 0
    for members in by_length(ids, LOGITS // model.config.vocab_size):
        for index, row in zip(members, _greedy(model, [ids[i] for i in members]), strict=True):
            found[index] = row
        done += len(members)
        say(done)
    return found


def _greedy(model: Any, rows: Ids) -> list[NDArray[np.int64]]:
    """Not by `generate`: that would shape the logits by the model's settings, and cannot take fewer encoder than decoder layers."""
    import torch
    from transformers import DynamicCache, EncoderDecoderCache

    said = model.generation_config
    ends = [said.eos_token_id] if isinstance(said.eos_token_id, int) else list(said.eos_token_id or ())
    start = said.decoder_start_token_id if said.decoder_start_token_id is not None else said.bos_token_id
    ids, mask = _padded(rows, 0)
    cache = EncoderDecoderCache(DynamicCache(), DynamicCache())
    with torch.no_grad():
        hidden = model.get_encoder()(input_ids=ids, attention_mask=mask)
        made = torch.full((len(rows), 1), start)
        for _ in range(TARGET_TOKENS):
            logits = model(
                encoder_outputs=hidden, attention_mask=mask, decoder_input_ids=made[:, -1:], past_key_values=cache, use_cache=True
            ).logits
            made = torch.cat((made, logits[:, -1].argmax(-1, keepdim=True)), 1)
    found = made.numpy()
    stops = [next((at for at in range(1, len(row)) if row[at] in ends), len(row) - 1) for row in found]
    return [row[: stop + 1].astype(np.int64) for row, stop in zip(found, stops, strict=True)]


def answers(model: Any, ids: Ids, targets: Ids, probe: Probe, say: Callable[[int], None]) -> list[Array]:
    """What the probe keeps of the logits at every token: of the text itself, or of the targets where there are any."""
    import torch

    found: list[Array | None] = [None] * len(ids)
    done, scored = 0, targets or ids
    for members in by_length(scored, LOGITS // model.config.vocab_size):
        rows, mask = _padded([ids[i] for i in members], 0)
        extra = {"decoder_input_ids": _padded([targets[i] for i in members], 0)[0]} if targets else {}
        with torch.no_grad():
            logits = model(input_ids=rows, attention_mask=mask, **extra, use_cache=False).logits
        for index, row in zip(members, logits, strict=True):
            found[index] = probe(scored[index], row[: len(scored[index])].numpy())
        done += len(members)
        say(done)
    return [f for f in found if f is not None]


def _padded(rows: Ids, fill: int) -> tuple[Any, Any]:
    """Rows as one tensor, padded at the end, and the mask over them."""
    import torch

    ids = torch.full((len(rows), max(map(len, rows))), fill, dtype=torch.long)
    mask = torch.zeros_like(ids)
    for number, row in enumerate(rows):
        ids[number, : len(row)], mask[number, : len(row)] = torch.from_numpy(row), 1
    return ids, mask


def by_length(rows: Ids, most: int) -> Iterator[list[int]]:
    """Indices of rows of like length, `most` padded tokens together."""
    batch: list[int] = []
    for index in sorted(range(len(rows)), key=lambda i: len(rows[i])):
        if batch and (len(batch) + 1) * len(rows[index]) > most:
            yield batch
            batch = []
        batch.append(index)
    if batch:
        yield batch
