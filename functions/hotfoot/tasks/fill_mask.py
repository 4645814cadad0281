"""Fill-mask: the likeliest tokens at each mask of a text."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hotfoot.contract.errors import InputError, TooLargeError, UnsupportedError
from hotfoot.contract.json_types import json_type
from hotfoot.contract.manifest import Manifest
from hotfoot.task import Array, Encoded, ExportSpec, Options, Request, Task, Tokenizer, run_encoder
from hotfoot.tasks._texts import TRUNCATION, check_parameters, option, read_text, read_texts, softmax, truncation
from hotfoot.tasks._tokens import id_of

PARAMETERS = ("top_k", "targets", *TRUNCATION)
TOP_K = 5
CANDIDATES = 2**17  # of all masks of one request
KEPT = 10  # of a token's ranking, for parity
COMPARED = 5
ROWS = 32  # that are looked at together, each as wide as a vocabulary
BLOCK = 64  # columns that a maximum stands for, where the best of a vocabulary are looked for
# what transformers calls the clean-up of spaces: WordPiece tokens of English, as `do n't .`, read as text again
TIDY = ((" .", "."), (" ?", "?"), (" !", "!"), (" ,", ","), (" ' ", "'"), *((f" {end}", end) for end in ("n't", "'m", "'s", "'ve", "'re")))


@dataclass(frozen=True, kw_only=True)
class Masked(Encoded):
    """A text with masks, at `reads`. targets: the only ids to choose among; spell: ids to text, with special tokens or without."""

    targets: tuple[int, ...] | None
    spell: Callable[[Sequence[int], bool], str]


def facts(config: Mapping[str, Any]) -> dict[str, Any]:
    """The model's mask and how its tokens are read as text. Raises UnsupportedError for a tokenizer without a mask."""
    mask = config["special"].get("mask_token")
    mask_id = id_of(config["tokenizer"], mask)
    if mask_id is None:
        raise UnsupportedError("the model's tokenizer has no mask token, so there is no place to fill.")
    return {"mask_token": mask, "mask_id": mask_id, "tidies": bool(config["tidies"])}


def parse(inputs: Any, parameters: Options, manifest: Manifest) -> Request:
    """A text or a list of texts, each with at least one mask; raises InputError."""
    check_parameters(parameters, PARAMETERS)
    texts, paths, single = read_texts(inputs)
    mask = str(manifest.facts["mask_token"])
    for text, path in zip(texts, paths, strict=True):
        if mask not in text:
            raise InputError(f"has no mask; this model's is {mask}.", where=path)
    top_k: int = option(parameters, "top_k", int, TOP_K)
    if top_k < 1:
        raise InputError(f"is {top_k}; it must be at least 1.", where="parameters.top_k")
    options = {"top_k": top_k, "targets": _read_targets(parameters), "mask_id": int(manifest.facts["mask_id"])}
    return Request(texts, paths, single, truncation(parameters, manifest), options)


def _read_targets(parameters: Options) -> tuple[str, ...] | None:
    given = parameters.get("targets")
    if given is None:
        return None
    if isinstance(given, str):
        given = [given]
    if not isinstance(given, list):
        raise InputError(f"must be a text or a list of texts, not {json_type(given)}.", where="parameters.targets")
    if not given:
        raise InputError("is an empty list; name at least one token.", where="parameters.targets")
    return tuple(read_text(target, f"parameters.targets[{number}]") for number, target in enumerate(given))


def encode(request: Request, tokenizer: Tokenizer) -> tuple[Encoded, ...]:
    """One encoding a text, of which the masks are read. Raises InputError for a mask that was cut off."""
    targets = None if request.options["targets"] is None else _target_ids(request.options["targets"], tokenizer)

    def spell(ids: Sequence[int], special: bool) -> str:
        return tokenizer.decode(ids, skip_special_tokens=not special)

    found = []
    for encoded, path in zip(tokenizer.encode(request.texts, truncate=request.truncate, paths=request.paths), request.paths, strict=True):
        places = np.flatnonzero(encoded.ids == request.options["mask_id"])
        if not len(places):
            raise InputError(f"has its mask behind the limit of {tokenizer.max_tokens} tokens, where it was cut.", where=path)
        found.append(Masked(encoded.ids, encoded.type_ids, encoded.item, encoded.marks, reads=places, targets=targets, spell=spell))
    return tuple(found)


def _target_ids(targets: Sequence[str], tokenizer: Tokenizer) -> tuple[int, ...]:
    """The tokens that are meant: by their own spelling, or as transformers has it the first of those that the text is made of."""
    ids = []
    for number, target in enumerate(targets):
        found = tokenizer.id_of(target)
        if found is None:
            (encoded,) = tokenizer.encode([target], truncate="right", paths=[f"parameters.targets[{number}]"])
            own = encoded.ids[~np.array(encoded.special)]
            if not len(own):
                raise InputError("has no tokens.", where=f"parameters.targets[{number}]")
            found = int(own[0])
        ids.append(found)
    return tuple(dict.fromkeys(ids))


def decode(request: Request, encoded: tuple[Encoded, ...], outputs: list[Array], manifest: Manifest) -> list[Any]:
    """A ranking a mask, best first: `[{"score", "token", "token_str", "sequence"}, …]`, and a list of rankings for several masks.

    One answer for a bare text, a list of them for a list. A sequence is the text with that one mask filled, without the tokens
    around it; other masks stay.
    """
    answers = []
    _check_candidates(request, outputs)
    for text, one, logits in zip(request.texts, encoded, outputs, strict=True):
        if not isinstance(one, Masked) or one.reads is None:
            raise TypeError("not an encoding that this task made")
        rankings = [
            _ranking(text, one, place, row, request.options["top_k"], manifest) for place, row in zip(one.reads, logits, strict=True)
        ]
        answers.append(rankings[0] if len(rankings) == 1 else rankings)
    return list(answers[0]) if request.single else answers


def _check_candidates(request: Request, outputs: list[Array]) -> None:
    """Raise TooLargeError for more candidates than one answer may hold: each is a whole text, so the tokens say nothing of its size."""
    targets, top_k = request.options["targets"], request.options["top_k"]
    count = sum(len(rows) * min(top_k, rows.shape[1] if targets is None else len(targets)) for rows in outputs)
    if count > CANDIDATES:
        raise TooLargeError(f"the answer would hold {count} candidates, the limit is {CANDIDATES}.", hint="Ask for a lower top_k.")


def _ranking(text: str, encoded: Masked, place: int, logits: Array, top_k: int, manifest: Manifest) -> list[dict[str, Any]]:
    chosen = np.arange(len(logits)) if encoded.targets is None else np.array(encoded.targets)
    if top_k < len(chosen):
        chosen = chosen[np.argpartition(-logits[chosen], top_k - 1)[:top_k]]
    best = chosen[np.lexsort((chosen, -logits[chosen]))]
    scores = softmax(logits)[best]
    tidies = bool(manifest.facts["tidies"])
    ranking = []
    for token, score in zip(best.tolist(), scores.tolist(), strict=True):
        spelled = encoded.spell([token], True)
        sequence = _sequence(text, encoded, place, token, str(manifest.facts["mask_token"]))
        if tidies:
            spelled, sequence = _tidy(spelled), _tidy(sequence)
        ranking.append({"score": score, "token": token, "token_str": spelled, "sequence": sequence})
    return ranking


def _sequence(text: str, encoded: Masked, place: int, token: int, mask: str) -> str:
    """The text with the mask at `place` filled."""
    ids, masks = encoded.ids.copy(), [] if encoded.reads is None else encoded.reads.tolist()
    ids[place] = token
    if len(masks) == 1:
        return encoded.spell(ids.tolist(), False)
    written = encoded.spell(ids[~np.array(encoded.special)].tolist(), True)
    # a mask may have eaten the space before it
    parts = written.split(mask)
    for part, other in enumerate(m for m in masks if m != place):
        start = encoded.offsets[other][0]
        spaced = text[start : start + 1].isspace() or text[start - 1 : start].isspace()
        if spaced and parts[part] and not parts[part][-1].isspace():
            parts[part] += " "
    return mask.join(parts)


def _tidy(text: str) -> str:
    for spaced, plain in TIDY:
        text = text.replace(spaced, plain)
    return text


def probe(ids: NDArray[np.int64], output: Array) -> Array:
    """Of each token its id, the ids of the KEPT likeliest tokens there, and their probabilities: (tokens, 1 + 2 * KEPT).

    Of every token, as which one is the mask only the manifest knows.
    """
    parts = []
    for start in range(0, len(ids), ROWS):
        rows = output[start : start + ROWS]
        best = _best(rows, min(KEPT, rows.shape[1]))
        top = rows.max(axis=1, keepdims=True)
        total = np.exp(rows - top).sum(axis=1, keepdims=True)
        scores = np.exp(np.take_along_axis(rows, best, axis=1) - top) / total
        parts.append(np.concatenate([ids[start : start + ROWS, None], best, scores], axis=1, dtype=np.float32))
    return np.concatenate(parts)


def _best(rows: Array, count: int) -> NDArray[np.intp]:
    """Columns of the `count` largest numbers of each row, the largest first. They lie in the blocks with the largest maxima."""
    width = -(-rows.shape[1] // BLOCK) * BLOCK
    padded = np.pad(rows, ((0, 0), (0, width - rows.shape[1])), constant_values=-np.inf) if width > rows.shape[1] else rows
    maxima = padded.reshape(len(rows), -1, BLOCK).max(axis=2)
    blocks = np.sort(np.argsort(-maxima, axis=1, kind="stable")[:, :count], axis=1)
    columns = (blocks[:, :, None] * BLOCK + np.arange(BLOCK)).reshape(len(rows), -1)
    order = np.argsort(-np.take_along_axis(padded, columns, axis=1), axis=1, kind="stable")[:, :count]
    return np.take_along_axis(columns, order, axis=1)


def parity(ours: Sequence[Array], reference: Sequence[Array], manifest: Manifest) -> dict[str, float]:
    """At the masks: share with the same best token, overlap of the five best, and 1 minus the drift of the original's five scores.

    The drift of a mask is the largest of the five: mean, and worst of 100. A token that ours has not among its ten best counts as
    one of score 0. All are 0 where no text has a mask.
    """
    a, b = np.concatenate(list(ours)), np.concatenate(list(reference))
    there = b[:, 0] == manifest.facts["mask_id"]
    a, b, kept = a[there], b[there], (a.shape[1] - 1) // 2
    if not len(b):
        return dict.fromkeys(("top1", "top5_overlap", "score_mean", "score_p99"), 0.0)
    wanted, scores = b[:, 1 : 1 + min(COMPARED, kept)], b[:, 1 + kept : 1 + kept + min(COMPARED, kept)]
    same = wanted[:, :, None] == a[:, None, 1 : 1 + kept]
    drift = np.abs((same * a[:, None, 1 + kept :]).sum(axis=2) - scores).max(axis=1)
    return {
        "top1": float((a[:, 1] == b[:, 1]).mean()),
        "top5_overlap": float(same[:, :, :COMPARED].any(axis=2).mean()),
        "score_mean": 1 - float(drift.mean()),
        "score_p99": 1 - float(np.percentile(drift, 99)),
    }


def sample(manifest: Manifest) -> str:
    """With the model's own mask, where a cut to the model's limit leaves it."""
    return f"{manifest.facts['mask_token']} is playing the guitar on stage."


TASK = Task(
    name="fill-mask",
    summary="Find the tokens that fit where a text is masked.",
    export=ExportSpec(auto_class="AutoModelForMaskedLM", optimum_task="fill-mask", output="logits", labels=False),
    parameters=PARAMETERS,
    facts=facts,
    parse=parse,
    encode=encode,
    run=run_encoder,
    decode=decode,
    parity=parity,
    thresholds={
        "fp32": {"top1": 0.999, "top5_overlap": 0.999, "score_mean": 0.9999, "score_p99": 0.999},
        "fp16": {"top1": 0.98, "top5_overlap": 0.99, "score_mean": 0.999, "score_p99": 0.98},
        "int8": {"top1": 0.95, "top5_overlap": 0.93, "score_mean": 0.97, "score_p99": 0.7},
        # plain rounding in blocks of 32 costs a model of twelve shared layers 0.06, 0.18, 0.05 and 0.68
        "int4": {"top1": 0.88, "top5_overlap": 0.75, "score_mean": 0.9, "score_p99": 0.2},
    },
    sample=sample,
    probe=probe,
    corpus="masked",
)
