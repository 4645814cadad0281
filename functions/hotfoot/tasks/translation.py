"""Translation, for models of one pair of languages, and for those that are told the pair in words before the text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from hotfoot.contract.errors import InputError, UnsupportedError
from hotfoot.contract.manifest import Manifest
from hotfoot.task import Options, Request
from hotfoot.tasks import _text2text
from hotfoot.tasks._texts import option

PARAMETERS = (*_text2text.PARAMETERS, "src_lang", "tgt_lang")
BY_TOKEN = ("m2m_100", "mbart", "nllb-moe")  # models that are told the languages by tokens
PAIR = "translation_"  # task_specific_params has `translation_en_to_de`


def facts(known: Mapping[str, Any]) -> dict[str, Any]:
    """As of every encoder-decoder, and the words for each pair of languages: {"en_to_de": "translate English to German: "}.

    Raises UnsupportedError for a model that is told the languages by tokens.
    """
    config = known["config"]
    if config.get("model_type") in BY_TOKEN:
        raise UnsupportedError(
            f"{config['model_type']} models are told source and target language by tokens, which hotfoot cannot do yet.",
            hint="A model of one pair of languages works, as those of Helsinki-NLP.",
        )
    named = {name.removeprefix(PAIR): said for name, said in (config.get("task_specific_params") or {}).items() if name.startswith(PAIR)}
    return {**_text2text.facts(known), "pairs": {pair: str(said.get("prefix", "")) for pair, said in named.items()}}


def parse(inputs: Any, parameters: Options, manifest: Manifest) -> Request:
    """A text or a list of texts, and the languages where the model knows several pairs; raises InputError."""
    request = _text2text.parse(inputs, parameters, manifest, PARAMETERS)
    source: str | None = option(parameters, "src_lang", str, None)
    target: str | None = option(parameters, "tgt_lang", str, None)
    pairs: Mapping[str, str] = manifest.facts["pairs"]
    if not pairs:
        if source is not None or target is not None:
            raise InputError("has no effect: this model has one pair of languages.", where=f"parameters.{'src' if source else 'tgt'}_lang")
        return request
    if source is None and target is None:
        return replace(request, options={**request.options, "prefix": next(iter(pairs.values()))})
    if f"{source}_to_{target}" not in pairs:
        known = ", ".join(pair.replace("_to_", " to ") for pair in pairs)
        raise InputError(f"cannot be {target!r} from {source!r}.", hint=f"This model has: {known}.", where="parameters.tgt_lang")
    return replace(request, options={**request.options, "prefix": pairs[f"{source}_to_{target}"]})


TASK = _text2text.task(
    name="translation",
    summary="Say in one language what a text says in another.",
    key="translation_text",
    sample="My name is Sarah and I live in London.",
    parameters=PARAMETERS,
    facts=facts,
    parse=parse,
)
