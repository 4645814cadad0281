"""What the tasks of an encoder-decoder share: a text in, a text of its own out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hotfoot.contract.errors import InputError, UnsupportedError
from hotfoot.contract.json_types import json_type
from hotfoot.contract.manifest import Manifest
from hotfoot.generation import Answer, Rules, Start
from hotfoot.task import Encoded, ExportSpec, Means, Options, Request, Task, Tokenizer, run_encoder
from hotfoot.tasks import _generating
from hotfoot.tasks._texts import TRUNCATION, check_parameters, read_texts, truncation

PARAMETERS = (*_generating.PARAMETERS, "generate_parameters", *TRUNCATION)
NEW_TOKENS = 128  # where neither the request nor the model says
TARGET_TOKENS = 512  # of an answer at most, for models with no bound of their own, as those with relative positions
EXPORT = ExportSpec(
    auto_class="AutoModelForSeq2SeqLM",
    optimum_task="text2text-generation-with-past",
    output="logits",
    labels=False,
    family="encoder-decoder",
)


def facts(known: Mapping[str, Any]) -> dict[str, Any]:
    """The model's own settings for `generate`, the tokens that its decoder starts with, what goes before a text, and the decoder's limit.

    Raises UnsupportedError for a model that names no token to start with.
    """
    said = known["generation"]
    start = said.get("decoder_start_token_id")
    if start is None:
        start = said.get("bos_token_id")
    if not isinstance(start, int):
        raise UnsupportedError("neither generation_config.json nor config.json has a decoder_start_token_id.", hint="Name it there.")
    own = dict(said)
    # transformers counts the start token in these two
    for name, counted in (("max_new_tokens", "max_length"), ("min_new_tokens", "min_length")):
        if own.get(name) is None and own.get(counted) is not None:
            own[name] = max(0, int(own[counted]) - 1)
    return {
        "generation": _generating.settings(own),
        "start": [start],
        "prefix": said.get("prefix") or "",
        "target_tokens": said["target_positions"] or TARGET_TOKENS,
    }


def parse(inputs: Any, parameters: Options, manifest: Manifest, known: Sequence[str] = PARAMETERS) -> Request:
    """A text or a list of texts; parameters of `generate` also in `generate_parameters`. Raises InputError."""
    check_parameters(parameters, known)
    texts, paths, single = read_texts(inputs)
    inner = parameters.get("generate_parameters")
    if inner is not None and not isinstance(inner, dict):
        raise InputError(f"must be an object, not {json_type(inner)}.", where="parameters.generate_parameters")
    if strange := sorted(set(inner or {}) - set(_generating.PARAMETERS)):
        raise InputError(
            f"must be parameters of `generate`, and {strange[0]!r} is none.",
            hint=f"There are: {', '.join(_generating.PARAMETERS)}.",
            where="parameters.generate_parameters",
        )
    if twice := sorted(set(inner or {}) & set(parameters)):
        raise InputError("is given twice, here and in generate_parameters.", where=f"parameters.{twice[0]}")
    own = manifest.facts["generation"]
    most = int(manifest.facts["target_tokens"]) - len(manifest.facts["start"])
    options = _generating.read({**parameters, **(inner or {})}, own, NEW_TOKENS, most)
    options |= {"start": tuple(manifest.facts["start"]), "prefix": str(manifest.facts["prefix"])}
    return Request(texts, paths, single, truncation(parameters, manifest), options)


def encode(request: Request, tokenizer: Tokenizer) -> tuple[Encoded, ...]:
    """Each text behind what the model expects before it."""
    texts = [request.options["prefix"] + text for text in request.texts]
    return tokenizer.encode(texts, truncate=request.truncate, paths=request.paths)


def generate(request: Request, encoded: tuple[Encoded, ...], means: Means) -> list[Answer]:
    """One answer a text."""
    rules: Rules = request.options["rules"]
    start = Start(request.options["start"], continues=False)
    return [_generating.answer(means, one, start, rules, request.options["stops"], done) for done, one in enumerate(encoded)]


def task(name: str, summary: str, key: str, sample: str, **others: Any) -> Task:
    """A task whose answer is one object a text, also for a bare text: `[{key: …}, …]`."""

    def decode(_request: Request, _encoded: tuple[Encoded, ...], answers: list[Answer], _manifest: Manifest) -> list[dict[str, str]]:
        """One object a text."""
        return [{key: answer.text} for answer in answers]

    parts: dict[str, Any] = {"parameters": PARAMETERS, "facts": facts, "parse": parse, **others}
    return Task(
        name=name,
        summary=summary,
        export=EXPORT,
        encode=encode,
        run=run_encoder,
        decode=decode,
        parity=_generating.parity,
        thresholds=_generating.THRESHOLDS,
        sample=sample,
        probe=_generating.probe,
        generate=generate,
        **parts,
    )
