"""What the tasks that make text share: the parameters of `generate`, the model's own settings, and how agreement is measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hotfoot.contract.errors import InputError
from hotfoot.contract.json_types import json_type
from hotfoot.generation import Answer, Rules, Start, write
from hotfoot.task import Array, Encoded, Means, Options
from hotfoot.tasks._texts import option

PARAMETERS = (
    "max_new_tokens",
    "min_new_tokens",
    "do_sample",
    "temperature",
    "top_k",
    "top_p",
    "repetition_penalty",
    "no_repeat_ngram_size",
    "seed",
    "stop",
)
# The least of each measure, by precision. A small decoder finds many tokens about as likely as each other, and any rounding turns some of
# them over: SmolLM2 with 135 M parameters agrees in int8 on 0.934 of them at a perplexity ratio of 0.989, in int4 on 0.824 at 0.944.
THRESHOLDS = {
    "fp32": {"argmax_agreement": 0.999, "perplexity_ratio": 0.9999},
    "fp16": {"argmax_agreement": 0.98, "perplexity_ratio": 0.995},
    "int8": {"argmax_agreement": 0.92, "perplexity_ratio": 0.97},
    "int4": {"argmax_agreement": 0.75, "perplexity_ratio": 0.85},
}
SAMPLING = ("temperature", "top_k", "top_p", "seed")
STOPS = 16  # texts that may end an answer
ROWS = 64  # tokens whose scores for a whole vocabulary are looked at together


def settings(generation: Mapping[str, Any]) -> dict[str, Any]:
    """The facts of a generative artifact: the model's own settings for `generate`, those that make a difference here."""
    names = ("bad_words_ids", "forced_bos_token_id", "forced_eos_token_id", "suppress_tokens", "begin_suppress_tokens")
    kept = {name: generation[name] for name in (*PARAMETERS, *names) if generation.get(name) is not None and name != "do_sample"}
    ends = generation.get("eos_token_id")
    return {**kept, "eos_token_id": [ends] if isinstance(ends, int) else list(ends or ())}


def read(parameters: Options, own: Mapping[str, Any], default: int, most: int) -> dict[str, Any]:
    """The request's rules and stop texts, the model's `own` settings where it says nothing; at most `most` new tokens.

    Raises InputError for a value out of range, or one that would have no effect.
    """
    asked: int | None = option(parameters, "max_new_tokens", int, None)
    if asked is not None and not 1 <= asked <= most:
        raise InputError(f"is {asked}; it must be from 1 to {most}.", where="parameters.max_new_tokens")
    longest = asked if asked is not None else min(int(own.get("max_new_tokens", default)), most)
    least: int = option(parameters, "min_new_tokens", int, min(int(own.get("min_new_tokens", 0)), longest))
    if not 0 <= least <= longest:
        raise InputError(f"is {least}; it must be from 0 to max_new_tokens, which is {longest}.", where="parameters.min_new_tokens")
    unrepeated: int = option(parameters, "no_repeat_ngram_size", int, own.get("no_repeat_ngram_size", 0))
    if unrepeated < 0:
        raise InputError(f"is {unrepeated}; it must be 0 or more.", where="parameters.no_repeat_ngram_size")
    forced = own.get("forced_eos_token_id")
    rules = Rules(
        most=longest,
        least=least,
        ends=tuple(own["eos_token_id"]),
        repetition_penalty=number(parameters, "repetition_penalty", float(own.get("repetition_penalty", 1.0)), above=0.0),
        unrepeated=unrepeated,
        banned=tuple(tuple(run) for run in own.get("bad_words_ids", ()) if list(run) not in [[end] for end in own["eos_token_id"]]),
        first=own.get("forced_bos_token_id"),
        last=forced[0] if isinstance(forced, list) else forced,
        never=tuple(own.get("suppress_tokens", ())),
        never_first=tuple(own.get("begin_suppress_tokens", ())),
        **_sampling(parameters, own),
    )
    return {"rules": rules, "stops": _stops(parameters)}


def _sampling(parameters: Options, own: Mapping[str, Any]) -> dict[str, Any]:
    """Of Rules what is about sampling: asked for by do_sample, or by any of its parameters where do_sample is absent."""
    given = [name for name in SAMPLING if parameters.get(name) is not None]
    sample: bool = option(parameters, "do_sample", bool, bool(given))
    if not sample:
        if given:
            raise InputError("has no effect without sampling.", hint="Leave it out, or do_sample: false.", where=f"parameters.{given[0]}")
        return {}
    top_k: int = option(parameters, "top_k", int, own.get("top_k", 0))
    if top_k < 0:
        raise InputError(f"is {top_k}; it must be 0 (off) or more.", where="parameters.top_k")
    seed: int | None = option(parameters, "seed", int, None)
    if seed is not None and not 0 <= seed < 2**64:
        raise InputError(f"is {seed}; it must be from 0 to 2^64 - 1.", where="parameters.seed")
    return {
        "sample": True,
        "temperature": number(parameters, "temperature", float(own.get("temperature", 1.0)), above=0.0),
        "top_k": top_k,
        "top_p": number(parameters, "top_p", float(own.get("top_p", 1.0)), above=0.0, most=1.0),
        "seed": seed,
    }


def number(parameters: Options, name: str, default: float, *, above: float, most: float = 1e6) -> float:
    """A number above one bound and up to another, or its default; null counts as absent. Raises InputError."""
    value = parameters.get(name)
    if value is None:
        return default
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        raise InputError(f"must be a number, not {json_type(value)}.", where=f"parameters.{name}")
    if not above < value <= most:
        raise InputError(f"is {value}; it must be above {above:g} and at most {most:g}.", where=f"parameters.{name}")
    return float(value)


def _stops(parameters: Options) -> tuple[str, ...]:
    given = parameters.get("stop")
    stops = [given] if isinstance(given, str) else option(parameters, "stop", list, [])
    for index, stop in enumerate(stops):
        if not isinstance(stop, str) or not stop:
            raise InputError("must be a text of at least one character.", where=f"parameters.stop[{index}]")
    if len(stops) > STOPS:
        raise InputError(f"has {len(stops)} texts; {STOPS} at most.", where="parameters.stop")
    return tuple(stops)


def answer(means: Means, inputs: Encoded, start: Start, rules: Rules, stops: Sequence[str], done: int) -> Answer:
    """One text's answer, `done` texts being finished before it."""
    means.check(done)
    state = means.graphs.begin(inputs)

    def feed(ids: Sequence[int]) -> Array:
        nonlocal state
        means.check(done)
        logits, state = means.graphs.feed(state, ids)
        return logits

    return write(feed, start, rules, means.decode, stops)


def probe(ids: NDArray[np.int64], logits: Array) -> Array:
    """Of each token but the last, the likeliest next one and the log-probability of the one that really follows: (tokens - 1, 2)."""
    kept = np.empty((len(ids) - 1, 2), np.float32)
    for start in range(0, len(kept), ROWS):
        rows, following = logits[:-1][start : start + ROWS].astype(np.float64), ids[1:][start : start + ROWS]
        told = rows - rows.max(axis=-1, keepdims=True)
        kept[start : start + ROWS, 0] = rows.argmax(axis=-1)
        kept[start : start + ROWS, 1] = told[np.arange(len(rows)), following] - np.log(np.exp(told).sum(axis=-1))
    return kept


def parity(ours: Sequence[Array], reference: Sequence[Array], _manifest: Any) -> dict[str, float]:
    """Over all tokens, each given those before it: how often the likeliest next one is the same, and how perplexities compare.

    argmax_agreement: a share of tokens. perplexity_ratio: the original's over ours, at most 1: 0.99 is a perplexity 1 % worse.
    """
    a, b = np.concatenate(ours), np.concatenate(reference)
    gain = float(np.mean(a[:, 1], dtype=np.float64) - np.mean(b[:, 1], dtype=np.float64))
    return {"argmax_agreement": float(np.mean(a[:, 0] == b[:, 0])), "perplexity_ratio": min(1.0, float(np.exp(gain)))}
