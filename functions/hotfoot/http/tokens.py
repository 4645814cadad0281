"""Texts as tokens and back: `/tokenize`, `/decode`, and inputs that come as token ids."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from hotfoot.contract.errors import InputError
from hotfoot.contract.json_types import json_type
from hotfoot.http.body import as_sent, beside, refuse_unknown, required
from hotfoot.http.headers import Meter
from hotfoot.http.limits import check_ids, check_texts
from hotfoot.http.operations import Call, Operation
from hotfoot.http.service import Reply, Service
from hotfoot.task import Encoded
from hotfoot.tasks._texts import option, read_texts

MAX_ID = 2**31 - 1  # ids are int32


def operations() -> list[Operation]:
    """The routes of every artifact's tokenizer."""
    return [
        Operation("POST", "/tokenize", "Text Embeddings Inference", "Show the tokens of texts", tokenize),
        Operation("POST", "/decode", "Text Embeddings Inference", "Turn token ids back into text", decode),
    ]


async def tokenize(call: Call) -> Reply:
    """`{"inputs", "add_special_tokens"?}` -> a list of `{"id", "text", "special", "start", "stop"}` a text."""
    service, body = call.service, call.body
    tokenizer = service.model.tokenizer if call.remember else service.model.tokenizer.forgetful()
    inputs = required(body, "inputs")
    check_texts(len(inputs) if isinstance(inputs, list) else 1, service.limits)
    texts, paths, _single = read_texts(inputs)
    refuse_unknown(body, ("inputs", "add_special_tokens"))
    with as_sent(beside):
        special: bool = option(body, "add_special_tokens", bool, True)

    def work() -> tuple[list[list[dict[str, Any]]], Meter]:
        found = tokenizer.tokenize(texts, paths=paths, most=service.limits.tokens)
        rows = [list(_tokens(text, encoded, tokenizer.token_of)) for text, encoded in zip(texts, found, strict=True)]
        meter = Meter(tokens=sum(map(len, rows)), characters=sum(map(len, texts)), texts=len(texts))
        return [[t for t in row if special or not t["special"]] for row in rows], meter

    return await service.run(work)


def _tokens(text: str, encoded: Encoded, spelling: Callable[[int], str]) -> Iterator[dict[str, Any]]:
    """Offsets are code points of the text as sent; a special token stands nowhere in it."""
    for token_id, special, (start, stop) in zip(encoded.ids.tolist(), encoded.special, encoded.offsets, strict=True):
        if special:
            yield {"id": token_id, "text": spelling(token_id), "special": True, "start": None, "stop": None}
        else:
            yield {"id": token_id, "text": text[start:stop], "special": False, "start": start, "stop": stop}


async def decode(call: Call) -> Reply:
    """`{"ids": a list of token ids or of such lists, "skip_special_tokens"?}` -> a text a list."""
    service, body = call.service, call.body
    tokenizer = service.model.tokenizer
    ids = required(body, "ids")
    refuse_unknown(body, ("ids", "skip_special_tokens"))
    with as_sent(beside):
        skip: bool = option(body, "skip_special_tokens", bool, True)
    if not isinstance(ids, list) or not ids:
        raise InputError("must be a list of token ids, or a list of such lists.", where="ids")
    rows = [(row, f"ids[{i}]") for i, row in enumerate(ids)] if isinstance(ids[0], list) else [(ids, "ids")]
    check_texts(len(rows), service.limits)
    check_ids(sum(len(row) for row, _ in rows if isinstance(row, list)), service.limits)
    checked = [read_ids(row, where, tokenizer.token_of) for row, where in rows]

    def work() -> tuple[list[str], Meter]:
        texts = [tokenizer.decode(row, skip_special_tokens=skip) for row in checked]
        return texts, Meter(tokens=sum(map(len, checked)), characters=sum(map(len, texts)), texts=len(texts))

    return await service.run(work)


def read_ids(row: Any, where: str, spelling: Callable[[int], str]) -> list[int]:
    """A list of ids that the vocabulary has. Raises InputError that names the one it has not."""
    if not isinstance(row, list):
        raise InputError(f"must be a list of token ids, not {json_type(row)}.", where=where)
    if not row:
        raise InputError("is an empty list.", where=where)
    for i, value in enumerate(row):
        if not isinstance(value, int) or isinstance(value, bool):
            raise InputError(f"must be a token id, not {json_type(value)}.", where=f"{where}[{i}]")
        if not 0 <= value <= MAX_ID or not spelling(value):
            raise InputError(f"is {value}, which is not in the vocabulary.", where=f"{where}[{i}]")
    return row


def texts_of(service: Service, inputs: Any, where: str) -> Any:
    """`inputs` with token ids turned into the texts that they spell, which are read like any other; what holds none is left alone.

    One list of ids is one text. Raises InputError for ids outside the vocabulary or that spell nothing, TooLargeError for too many.
    """
    if not isinstance(inputs, list) or not inputs:
        return inputs
    if isinstance(inputs[0], int) and not isinstance(inputs[0], bool):
        return [_spelled(service, inputs, where)]
    if not any(isinstance(item, list) for item in inputs):
        return inputs
    check_texts(len(inputs), service.limits)
    check_ids(sum(len(item) for item in inputs if isinstance(item, list)), service.limits)
    return [_spelled(service, item, f"{where}[{i}]") if isinstance(item, list) else item for i, item in enumerate(inputs)]


def _spelled(service: Service, ids: list[Any], where: str) -> str:
    tokenizer = service.model.tokenizer
    check_ids(len(ids), service.limits)
    text = tokenizer.decode(read_ids(ids, where, tokenizer.token_of), skip_special_tokens=True)
    if not text.strip():
        raise InputError("holds ids that spell no text.", where=where)
    return text
