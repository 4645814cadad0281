"""Text generation: a text that goes on from the prompt."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from hotfoot.contract.errors import InputError
from hotfoot.contract.manifest import Manifest, Side
from hotfoot.generation import Answer, Rules, Start
from hotfoot.task import Encoded, ExportSpec, Means, Options, Request, Task, Tokenizer, run_encoder
from hotfoot.tasks import _generating
from hotfoot.tasks._texts import TRUNCATION, check_parameters, option, read_texts, truncation

PARAMETERS = (*_generating.PARAMETERS, "return_full_text", "stream", *TRUNCATION)
NEW_TOKENS = 100  # where neither the request nor the model says


def facts(known: Mapping[str, Any]) -> dict[str, Any]:
    """The model's own settings for `generate`."""
    return {"generation": _generating.settings(known["generation"])}


def parse(inputs: Any, parameters: Options, manifest: Manifest) -> Request:
    """A prompt or a list of prompts; raises InputError."""
    check_parameters(parameters, PARAMETERS)
    texts, paths, single = read_texts(inputs)
    if option(parameters, "stream", bool, False):
        raise InputError("is not possible here; the answer comes as a whole.", where="parameters.stream")
    own = manifest.facts["generation"]
    options = {
        **_generating.read(parameters, own, NEW_TOKENS, manifest.max_tokens - 1),
        "full": option(parameters, "return_full_text", bool, False),
        "asked": parameters.get("max_new_tokens") is not None,
        "limit": manifest.max_tokens,
    }
    return Request(texts, paths, single, truncation(parameters, manifest), options)


def encode(request: Request, tokenizer: Tokenizer) -> tuple[Encoded, ...]:
    """Prompts that leave room in the context: for as many new tokens as the request names, or for one.

    Raises InputError for a prompt that does not, unless it is to be cut.
    """
    rules, limit = request.options["rules"], request.options["limit"]
    room = limit - (rules.most if request.options["asked"] else max(1, rules.least))
    encoded = tokenizer.encode(request.texts, truncate=request.truncate, paths=request.paths)
    fitting = []
    for path, whole in zip(request.paths, encoded, strict=True):
        count = len(whole.ids)
        if count > room and request.truncate is None:
            raise InputError(
                f"the prompt has {count} tokens and {limit - room} new ones are to come; the model holds {limit} together.",
                hint="Shorten it, ask for fewer new tokens, or for truncation.",
                where=path,
            )
        fitting.append(whole if count <= room else _cut(whole, room, request.truncate))
    return tuple(fitting)


def _cut(whole: Encoded, room: int, side: Side | None) -> Encoded:
    """A prompt of `room` tokens; what begins every text of the model stays."""
    head = 1 if whole.special[0] else 0
    start = head if side == "right" else len(whole.ids) - (room - head)
    return whole.slice(head, start, start + room - head, 0)


def generate(request: Request, encoded: tuple[Encoded, ...], means: Means) -> list[Answer]:
    """One answer a prompt; as many tokens as the context still holds where the request names no number."""
    answers = []
    for done, inputs in enumerate(encoded):
        rules: Rules = request.options["rules"]
        rules = replace(rules, most=min(rules.most, means.graphs.limit - len(inputs.ids)))
        start = Start(inputs.ids.tolist(), continues=True)
        answers.append(_generating.answer(means, inputs, start, rules, request.options["stops"], done))
    return answers


def decode(request: Request, _encoded: tuple[Encoded, ...], answers: list[Answer], _manifest: Manifest) -> list[dict[str, str]]:
    """One object a prompt, also for a bare text: `[{"generated_text"}, …]`; the prompt stands before it where that is asked for."""
    full = request.options["full"]
    return [{"generated_text": (text if full else "") + answer.text} for text, answer in zip(request.texts, answers, strict=True)]


TASK = Task(
    name="text-generation",
    summary="Go on from a prompt.",
    export=ExportSpec(
        auto_class="AutoModelForCausalLM", optimum_task="text-generation-with-past", output="logits", labels=False, family="decoder"
    ),
    parameters=PARAMETERS,
    facts=facts,
    parse=parse,
    encode=encode,
    run=run_encoder,
    decode=decode,
    parity=_generating.parity,
    thresholds=_generating.THRESHOLDS,
    sample="Once upon a time",
    probe=_generating.probe,
    generate=generate,
)
