"""What each task takes and gives, as JSON Schema: for the API's description. A task that is not listed takes and gives any JSON."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hotfoot.contract.manifest import Manifest
from hotfoot.http.service import Service
from hotfoot.tasks import feature_extraction, text_classification, text_ranking, token_classification, zero_shot_classification
from hotfoot.tasks._texts import STRATEGIES

Schema = dict[str, Any]
TEXT: Schema = {"type": "string", "minLength": 1}
NUMBER: Schema = {"type": "number"}
SCORED: Schema = {
    "type": "array",
    "items": {"type": "object", "required": ["label", "score"], "properties": {"label": {"type": "string"}, "score": NUMBER}},
}
PACKED: Schema = {"type": "string", "contentEncoding": "base64"}
VECTOR: Schema = {"anyOf": [{"type": "array", "items": NUMBER}, PACKED]}
FLAG: Schema = {"type": ["boolean", "null"]}
CUT: Mapping[str, Schema] = {
    "truncate": {**FLAG, "description": "Cut a text that is too long; without it, such a text is refused."},
    "truncation": {"enum": [True, False, *STRATEGIES, None], "description": "Another name of truncate, or a strategy of transformers."},
    "truncation_direction": {"enum": ["left", "right", "Left", "Right", None], "description": "Which end is cut off."},
}


def strategies(names: Sequence[str]) -> Schema:
    """Of tasks over pairs, which can follow fewer."""
    return {**CUT["truncation"], "enum": [True, False, *names, None]}


def whole(least: int, most: int | None = None) -> Schema:
    """A whole number within bounds, or null for the default."""
    return {"type": ["integer", "null"], "minimum": least, **({} if most is None else {"maximum": most})}


def one_of(*values: str) -> Schema:
    """One of these words, or null for the default."""
    return {"enum": [*values, None]}


def many(item: Schema, most: int | None = None) -> Schema:
    """A list of one at least."""
    return {"type": "array", "items": item, "minItems": 1, **({} if most is None else {"maxItems": most})}


def either(*schemas: Schema) -> Schema:
    """Any of these."""
    return schemas[0] if len(schemas) == 1 else {"anyOf": list(schemas)}


def fields(properties: Mapping[str, Schema], *required: str) -> Schema:
    """An object of these members and no others."""
    return {"type": "object", "properties": dict(properties), "required": list(required), "additionalProperties": False}


def closed(*names: str) -> Schema:
    """An object of texts, all of them there."""
    return fields(dict.fromkeys(names, TEXT), *names)


def texts(service: Service, item: Schema = TEXT) -> Schema:
    """A text or a list of them."""
    return either(item, many(item, service.limits.texts))


def bodies(service: Service, task: str) -> list[tuple[Schema, Schema]]:
    """The forms of a request that a task takes: of `inputs`, and of `parameters` with it."""
    made = FORMS.get(task)
    if made is None:
        known = service.models[task].task.parameters
        return [({}, {"type": "object", "properties": {name: {} for name in known}, "additionalProperties": False})]
    return [(inputs, fields({**own, **(CUT if cuts else {})}, *needs)) for inputs, own, needs, cuts in made(service)]


Form = tuple[Schema, Mapping[str, Schema], Sequence[str], bool]


def _classifies(service: Service) -> list[Form]:
    own = {"function_to_apply": one_of(*text_classification.FUNCTIONS), "top_k": whole(1)}
    pair = fields({"text": TEXT, "text_pair": either(TEXT, {"type": "null"})}, "text")
    cuts = {**CUT, "truncation": strategies(text_classification.STRATEGIES)}
    return [(texts(service, either(TEXT, pair)), {**own, **cuts}, (), False)]


def _tags(service: Service) -> list[Form]:
    strategies = {"aggregation_strategy": one_of(*token_classification.STRATEGIES)}
    ignored = {"ignore_labels": {"type": ["array", "null"], "items": {"type": "string"}}}
    stride = whole(0, (service.model.manifest.max_tokens - 2) // 2)
    return [(texts(service), {**strategies, **ignored, "stride": stride}, (), True)]


def _embeds(service: Service) -> list[Form]:
    manifest = service.model.manifest
    own = {
        "normalize": {"enum": [True, None]} if manifest.facts.get("normalize") else FLAG,
        "dimensions": whole(1, int(manifest.facts["dimensions"])),
        "encoding_format": one_of(*feature_extraction.FORMATS),
        **_prompts(manifest),
    }
    return [(texts(service), own, (), True)]


def _prompts(manifest: Manifest) -> dict[str, Schema]:
    return {"prompt_name": {**one_of(*sorted(manifest.facts.get("prompts") or ())), "description": "The prompt that goes in front."}}


def _compares(service: Service) -> list[Form]:
    inputs = fields({"source_sentence": TEXT, "sentences": many(TEXT, service.limits.texts - 1)}, "source_sentence", "sentences")
    return [(inputs, _prompts(service.model.manifest), (), True)]


def _answers(service: Service) -> list[Form]:
    own = {
        **dict.fromkeys(("top_k", "max_answer_len", "max_question_len"), whole(1)),
        "max_seq_len": whole(1, service.model.manifest.max_tokens),
        "doc_stride": whole(0),
        "handle_impossible_answer": FLAG,
        "align_to_words": FLAG,
    }
    asked = {"question": TEXT, **own}
    return [(texts(service, closed("question", "context")), own, (), False), (texts(service), asked, ("question",), False)]


def _ranks(service: Service) -> list[Form]:
    own = {
        "top_n": whole(1),
        "return_documents": FLAG,
        "function_to_apply": one_of(*text_ranking.FUNCTIONS),
        **CUT,
        "truncation": strategies(text_ranking.STRATEGIES),
    }
    listed = [fields({"query": TEXT, name: many(TEXT, service.limits.texts)}, "query", name) for name in text_ranking.LISTS]
    return [(either(*listed), own, (), False), (texts(service), {"query": TEXT, **own}, ("query",), False)]


def _fills(service: Service) -> list[Form]:
    masked = {**TEXT, "pattern": re.escape(str(service.model.manifest.facts["mask_token"]))}
    targets = {"anyOf": [TEXT, many(TEXT), {"type": "null"}], "description": "The only words to choose among."}
    return [(texts(service, masked), {"top_k": whole(1), "targets": targets}, (), True)]


def _chooses(service: Service) -> list[Form]:
    labels = either({**TEXT, "pattern": r"[^\s,]"}, many({**TEXT, "pattern": r"\S"}))
    template = {"type": ["string", "null"], "pattern": r"^[^{}]*\{\}[^{}]*$"}
    own = {"hypothesis_template": template, "multi_label": FLAG}
    cuts = {**CUT, "truncation": strategies(zero_shot_classification.STRATEGIES)}
    needs = () if service.model.manifest.facts.get("candidate_labels") else ("candidate_labels",)
    object_ = fields({"sequences": texts(service), "candidate_labels": labels}, "sequences", *needs)
    return [(texts(service), {**own, **cuts, "candidate_labels": labels}, needs, False), (object_, {**own, **cuts}, (), False)]


FORMS: Mapping[str, Callable[[Service], list[Form]]] = {
    "text-classification": _classifies,
    "token-classification": _tags,
    "feature-extraction": _embeds,
    "sentence-similarity": _compares,
    "question-answering": _answers,
    "text-ranking": _ranks,
    "fill-mask": _fills,
    "zero-shot-classification": _chooses,
}

CLASSIC: Schema = {
    "type": "object",
    "required": ["sequence", "labels", "scores"],
    "properties": {
        "sequence": {"type": "string"},
        "labels": {"type": "array", "items": {"type": "string"}},
        "scores": {"type": "array", "items": NUMBER},
    },
}
ENTITY: Schema = {
    "type": "object",
    "required": ["score", "word", "start", "end"],
    "properties": {
        "entity_group": {"type": "string"},
        "entity": {"type": "string"},
        "score": NUMBER,
        "word": {"type": "string"},
        "start": {"type": "integer", "description": "Code points of the text as sent."},
        "end": {"type": "integer"},
        "index": {"type": "integer"},
    },
}
ANSWER: Schema = {
    "type": "object",
    "required": ["score", "start", "end", "answer"],
    "properties": {"score": NUMBER, "start": {"type": "integer"}, "end": {"type": "integer"}, "answer": {"type": "string"}},
}
CANDIDATE: Schema = {
    "type": "object",
    "required": ["score", "token", "token_str", "sequence"],
    "properties": {"score": NUMBER, "token": {"type": "integer"}, "token_str": {"type": "string"}, "sequence": {"type": "string"}},
}
RANKED: Schema = {
    "type": "object",
    "required": ["index", "score"],
    "properties": {"index": {"type": "integer"}, "score": NUMBER, "text": {"type": "string"}},
}
LIST: Schema = {"type": "array"}


def answer(service: Service, task: str) -> Schema:
    """What a task gives in the Hugging Face dialect."""
    vectors = VECTOR if service.pools else either({"type": "array", "items": {"type": "array", "items": NUMBER}}, PACKED)
    known: Mapping[str, Schema] = {
        "text-classification": either({"type": "array", "items": SCORED}, SCORED),
        "zero-shot-classification": either(SCORED, {"type": "array", "items": SCORED}, CLASSIC, {"type": "array", "items": CLASSIC}),
        "token-classification": {"type": "array", "items": either(ENTITY, {"type": "array", "items": ENTITY})},
        "feature-extraction": {"type": "array", "items": vectors},
        "sentence-similarity": {"type": "array", "items": {"type": "number", "minimum": -1, "maximum": 1}},
        "question-answering": either(ANSWER, LIST),
        "text-ranking": {"type": "array", "items": either(RANKED, NUMBER)},
        "fill-mask": {"type": "array", "items": either(CANDIDATE, LIST)},
    }
    return known.get(task, {})
