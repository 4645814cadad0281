"""The list of the deployments behind one API, from infrastructure to the runtime."""

from __future__ import annotations

import json

import pytest

from hotfoot import settings
from hotfoot.contract import peers
from hotfoot.contract.errors import ArtifactError
from hotfoot.contract.peers import Peer

EMBED = Peer("embed", "org/minilm", "feature-extraction", "")
PII = Peer("pii", "org/ner", "token-classification", "arn:aws:lambda:eu-central-1:123456789012:function:f:live")
OTHER = Peer("pii-2", "org/ner", "token-classification", "arn:other")


def test_what_is_written_is_read() -> None:
    text = peers.dumps([EMBED, PII])
    assert "\n" not in text
    assert peers.loads(text) == (EMBED, PII)
    assert peers.loads("") == ()


def test_a_name_comes_before_a_model_and_the_first_before_others() -> None:
    found = (EMBED, PII, OTHER)
    assert [peers.named(found, asked) for asked in ("embed", "org/ner", "pii-2", "else", "")] == [EMBED, PII, OTHER, None, None]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[", "HOTFOOT_MODELS is not JSON"),
        ("{}", "HOTFOOT_MODELS in the environment is not a list"),
        ("[]", "leave the function of exactly one empty"),
        (peers.dumps([PII]), "leave the function of exactly one empty"),
        (peers.dumps([EMBED, EMBED]), "must name each deployment once"),
        (
            json.dumps([{"name": "a", "model": 1, "task": "t", "url": ""}]),
            r"(?s)HOTFOOT_MODELS\[0\].*url: unknown.*model: must be str.*function: missing",
        ),
    ],
)
def test_a_fault_names_the_key(text: str, said: str) -> None:
    with pytest.raises(ArtifactError, match=said):
        settings.read({"HOTFOOT_MODELS": text})


def test_the_settings_have_them() -> None:
    assert (settings.read({}).name, settings.read({}).peers) == (None, ())
    found = settings.read({"HOTFOOT_NAME": "embed", "HOTFOOT_MODELS": peers.dumps([EMBED, PII])})
    assert (found.name, found.peers) == ("embed", (EMBED, PII))
