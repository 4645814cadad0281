"""From a name to one commit: the real client library against a hub on this machine."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import huggingface_hub
import pytest
from huggingface_hub import constants

from hotfoot.contract.errors import ArtifactError, HotfootError, InputError, OverloadedError
from hotfoot_build import hub as hub_client
from support.hub import Hub, Seen, serve
from support.resolving import MODEL, TOKEN, Call, point


@pytest.fixture(scope="module")
def server() -> Iterator[Hub]:
    with serve() as running:
        yield running
        huggingface_hub.close_session()


@pytest.fixture
def hub(server: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Hub:
    point(server, tmp_path, monkeypatch)
    return server


@pytest.fixture
def call(tmp_path: Path) -> Call:
    return Call(tmp_path / "cache")


# --- one commit


@pytest.mark.parametrize("asked", [None, "main", "v1", "refs/pr/3", "short", "full"])
def test_any_revision_becomes_one_commit(hub: Hub, call: Call, asked: str | None) -> None:
    repo = hub.repo("org/tiny")
    old = repo.commit(MODEL)
    repo.refs["v1"] = old
    repo.commit({**MODEL, "model.safetensors": b"from a pull request"}, branch="refs/pr/3")
    new = repo.commit({**MODEL, "model.safetensors": b"weights two"})
    wanted = {None: new, "main": new, "refs/pr/3": repo.refs["refs/pr/3"]}.get(asked, old)
    snapshot = call("org/tiny", revision={"short": old[:8], "full": old}.get(str(asked), asked))
    assert (snapshot.kind, snapshot.model.id, snapshot.model.revision) == ("hub", "org/tiny", wanted)
    assert (snapshot.path / "model.safetensors").read_bytes() == repo.commits[wanted]["model.safetensors"]
    assert snapshot.model.architecture == "BertForSequenceClassification"
    assert (snapshot.model.license, snapshot.model.notices) == ("apache-2.0", ("LICENSE",))
    assert (snapshot.fast_tokenizer, snapshot.pickled, snapshot.onnx_file, snapshot.remote_code) == (True, False, None, ())


def test_a_branch_that_moves_between_two_files_changes_nothing(hub: Hub, call: Call) -> None:
    repo = hub.repo("tiny")
    first = repo.commit(MODEL)

    def move(seen: Seen) -> None:
        if "/resolve/" in seen.path:
            repo.commit(dict.fromkeys(MODEL, f"later, at {seen}"))

    hub.before = move
    asked = call("tiny")
    assert len(repo.commits) > 5
    assert asked.model.revision == first
    assert {n: (asked.path / n).read_bytes() for n in asked.files} == repo.commits[first]
    assert all(f"/resolve/{first}/" in p for p in hub.paths("/resolve/"))


def test_a_pinned_commit_in_the_cache_needs_no_request(hub: Hub, call: Call) -> None:
    sha = hub.repo("tiny").commit(MODEL)
    first = call("tiny", revision=sha)
    assert call.said == [f"tiny@{sha} is commit {sha}", "fetching 1 files, 0.0 kB", "fetched 1 files, 0.0 kB"]
    hub.seen.clear()
    assert call("tiny", revision=sha) == first
    assert hub.seen == []


def test_many_files_come_in_pages_and_a_moved_name_says_so(hub: Hub, call: Call) -> None:
    hub.page = 2
    hub.repo("org/new").commit(MODEL)
    hub.repo("old").moved_to = "org/new"
    hub.repos["old"].commits = hub.repos["org/new"].commits
    assert call("old").model.id == "old"
    assert "old has moved to org/new" in call.said
    assert len(hub.paths("/tree/")) > 3


def test_nothing_but_progress_prints(hub: Hub, call: Call, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TQDM_POSITION", "-1")  # bars even where there is no terminal
    hub.repo("tiny").commit(MODEL)
    call("tiny")
    assert capfd.readouterr() == ("", "")


# --- who may read


def test_gated(hub: Hub, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    repo = hub.repo("org/gated", gated=True)
    repo.commit(MODEL)
    with pytest.raises(InputError, match=r"org/gated is gated\. Accept its terms .* set HF_TOKEN") as without_token:
        call("org/gated")
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    hub.grant(TOKEN)
    with pytest.raises(InputError, match=r"gated, and the token was refused\. Ask for access") as refused:
        call("org/gated")
    hub.grant(TOKEN, repo)
    snapshot = call("org/gated")
    told = [repr(snapshot), *call.said, *(repr(e.value) + str(e.value) + repr(e.value.__context__) for e in (without_token, refused))]
    assert not any("canary" in text.lower() for text in told)
    files = [p for p in call.cache.rglob("*") if p.is_file()]
    assert files
    assert not any(b"canary" in p.read_bytes().lower() or "canary" in str(p).lower() for p in files)
    assert any(s.authorized for s in hub.seen)
    assert not any(s.authorized for s in hub.seen if s.host == "localhost")  # the other origin, the CDN


@pytest.mark.parametrize(("token", "message"), [(None, "needs HF_TOKEN"), (TOKEN, "HF_TOKEN may read it")])
def test_private_is_like_unknown(hub: Hub, call: Call, monkeypatch: pytest.MonkeyPatch, token: str | None, message: str) -> None:
    hub.repo("org/private", private=True).commit(MODEL)
    if token:
        monkeypatch.setenv("HF_TOKEN", token)
        hub.grant(token)
    for name in ("org/private", "org/nothing"):
        with pytest.raises(InputError, match=f"has no model {name}.*{message}"):
            call(name)
    assert hub.paths("/resolve/") == []


def test_an_invalid_token(hub: Hub, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.repo("tiny").commit(MODEL)
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    with pytest.raises(InputError, match=r"refuses the token for tiny \(HTTP 401\)") as error:
        call("tiny")
    assert TOKEN not in str(error.value)


# --- what is not there, and what does not answer


@pytest.mark.parametrize("revision", ["v9", "0" * 40])
def test_unknown_revision(hub: Hub, call: Call, revision: str) -> None:
    hub.repo("tiny").commit(MODEL)
    with pytest.raises(InputError, match=f"tiny has no revision '{revision}'"):
        call("tiny", revision=revision)


@pytest.mark.parametrize(
    ("model", "revision", "message"),
    [
        ("a/b/c", None, "neither a file or folder here nor a model id"),
        ("https://huggingface.co/org/tiny", None, "neither"),
        ("tiny", "../../etc", "not a revision"),
        ("./nothing", None, r"no file or folder \./nothing"),
        ("nothing/model.onnx", None, "no file or folder"),
    ],
)
def test_names_that_cannot_be(hub: Hub, call: Call, model: str, revision: str | None, message: str) -> None:
    with pytest.raises(InputError, match=message):
        call(model, revision=revision)
    assert hub.seen == []


@pytest.mark.parametrize("part", ["/revision/", "/tree/", "/resolve/", "/cdn/"])
def test_a_hub_that_fails_and_recovers(hub: Hub, call: Call, monkeypatch: pytest.MonkeyPatch, part: str) -> None:
    monkeypatch.setattr(time, "sleep", lambda _: None)
    hub.repo("tiny").commit(MODEL)
    hub.failures[part] = [500, 503]
    assert (call("tiny").path / "model.safetensors").read_bytes() == b"weights one"
    assert hub.failures[part] == []


def test_a_hub_that_keeps_failing_is_left_alone(hub: Hub, call: Call) -> None:
    hub.repo("tiny").commit(MODEL)
    hub.failures["/revision/"] = [500] * 9
    with pytest.raises(OverloadedError, match="answers HTTP 500 for tiny"):
        call("tiny")
    assert len(hub.paths("/revision/")) == hub_client.TRIES
    assert [s.partition("tiny. ")[2] for s in call.said] == ["Trying again (2 of 3).", "Trying again (3 of 3)."]


def test_a_failing_hub_does_not_bring_back_an_old_commit(hub: Hub, call: Call) -> None:
    hub.repo("tiny").commit(MODEL)
    call("tiny")
    hub.failures["/revision/"] = [500] * 9
    with pytest.raises(OverloadedError):
        call("tiny")


@pytest.mark.parametrize(
    ("endpoint", "kind", "message"),
    [
        ("http://127.0.0.1:9", OverloadedError, r"127\.0\.0\.1:9 cannot be reached \(ConnectError\)"),
        (f"http://user:{TOKEN}@127.0.0.1:9", OverloadedError, r"http://127\.0\.0\.1:9 cannot be reached"),
        ("hub.example.com", InputError, "HF_ENDPOINT is not a usable address"),
        ("http://127.0.0.1:port", InputError, "HF_ENDPOINT is not a usable address"),
    ],
)
def test_no_hub(hub: Hub, call: Call, monkeypatch: pytest.MonkeyPatch, endpoint: str, kind: type[HotfootError], message: str) -> None:
    monkeypatch.setattr(constants, "ENDPOINT", endpoint)
    with pytest.raises(kind, match=message) as error:
        call("tiny")
    assert TOKEN not in str(error.value)
    assert hub.seen == []


def test_something_that_is_no_hub(hub: Hub, call: Call) -> None:
    hub.failures["/api/models"] = [200]
    with pytest.raises(ArtifactError, match="does not answer as a model hub does"):
        call("tiny")


# --- offline


def test_offline(hub: Hub, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    repo = hub.repo("org/tiny")
    sha = repo.commit(MODEL)
    online = call("org/tiny")
    other = repo.commit({**MODEL, "model.safetensors": b"never fetched"})
    hub.seen.clear()
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert call("org/tiny", revision=sha) == online
    assert call("org/tiny") == online
    assert f"offline: org/tiny@main was commit {sha} when last seen" in call.said
    for revision in (other, "v1", sha[:8]):
        with pytest.raises(InputError, match=f"org/tiny@{revision} is not in the cache"):
            call("org/tiny", revision=revision)
    (online.path / "model.safetensors").unlink()
    with pytest.raises(InputError, match="not in the cache"):
        call("org/tiny", revision=sha)
    assert hub.seen == []


def test_the_real_variables_in_a_fresh_process(hub: Hub, tmp_path: Path) -> None:
    hub.repo("tiny", gated=True).commit(MODEL)
    hub.grant(TOKEN, hub.repos["tiny"])
    code = (
        "import sys, pathlib\n"
        "from hotfoot_build.resolve import resolve\n"
        "assert not {'huggingface_hub', 'onnx', 'yaml', 'httpx2'} & set(sys.modules), 'slow imports'\n"
        "print(resolve('tiny', revision=None, cache_dir=pathlib.Path(sys.argv[1]), allow_pickle=False, trust_remote_code=False,\n"
        "              name=None, progress=print))\n"
    )
    env = {**os.environ, "HF_ENDPOINT": hub.url + "/", "HF_TOKEN": TOKEN, "HF_HOME": str(tmp_path / "home")}
    for more in ({}, {"HF_HUB_OFFLINE": "1", "HF_ENDPOINT": "http://127.0.0.1:9"}):
        done = subprocess.run(
            [sys.executable, "-c", code, str(tmp_path / "cache")], env={**env, **more}, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        assert hub.repos["tiny"].refs["main"] in done.stdout
    assert not [p for p in tmp_path.rglob("*") if p.is_file() and TOKEN.encode() in p.read_bytes()]
