"""The only file that talks to a model hub: a name and a revision become one commit, and files of that commit a folder.

Import it inside functions: huggingface_hub is slow to import, and `hotfoot --help` is not. `HF_TOKEN`, `HF_ENDPOINT`,
`HF_HUB_OFFLINE` and the like are its own; no message here quotes an answer, a header or a query, so none can hold a token.
"""

from __future__ import annotations

import glob
import re
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit

import httpx2
import yaml  # type: ignore[import-untyped]
from huggingface_hub import HfApi, constants, get_cached_repo_tree, metadata_load, snapshot_download, try_to_load_from_cache
from huggingface_hub.errors import (
    CachedRepoTreeNotFoundError,
    FileMetadataError,
    GatedRepoError,
    HfHubHTTPError,
    HFValidationError,
    LocalEntryNotFoundError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)
from huggingface_hub.file_download import repo_folder_name
from huggingface_hub.utils import validate_repo_id  # type: ignore[attr-defined]
from huggingface_hub.utils.tqdm import tqdm

from hotfoot.contract.errors import ArtifactError, HotfootError, InputError, OverloadedError, UnsupportedError

T = TypeVar("T")
Progress = Callable[[str], None]
TRIES, WAIT_S, TIMEOUT_S = 3, 1.0, 30.0
FULL_SHA = re.compile(r"[0-9a-f]{40}")
# git's own rules, shortened; a revision also becomes a file name below the cache's refs/
REVISION = re.compile(r"(?!.*\.\.)(?!/)[A-Za-z0-9][A-Za-z0-9._/+@-]{0,199}(?<!/)")


class _NoBar(tqdm):
    """No bars: one place prints, and that is `progress`."""

    def __init__(self, *args: object, **options: object) -> None:
        super().__init__(*args, **{**options, "disable": True})  # type: ignore[no-untyped-call]


@dataclass(frozen=True)
class Commit:
    """One commit of a hub's repository; `files` maps names to bytes."""

    repo: str
    revision: str
    sha: str
    files: Mapping[str, int]


def default_cache() -> Path:
    """huggingface_hub's own cache, which `HF_HOME` and `HF_HUB_CACHE` move: what is there need not come again."""
    return Path(constants.HF_HUB_CACHE)


def pin(repo: str, revision: str, cache_dir: Path, progress: Progress) -> Commit:
    """The commit that `revision` (branch, tag, full or short commit) names now, and its files.

    A commit that is in the cache needs no network. Offline, a branch is what it was when it was last asked for.
    Raises InputError (unknown or refused), OverloadedError (no answer; may work later).
    """
    try:
        validate_repo_id(repo)
    except HFValidationError:
        raise InputError(
            f"{repo!r} is neither a file or folder here nor a model id.", hint="Give ORG/NAME, a folder, or an .onnx file."
        ) from None
    if not REVISION.fullmatch(revision):
        raise InputError(f"{revision!r} is not a revision of {repo}.", hint="Give --revision a branch, a tag or a commit.")
    sha = revision if FULL_SHA.fullmatch(revision) else None
    if sha is None and constants.is_offline_mode():
        sha = _last_seen(repo, revision, cache_dir, progress)
    files = _cached_files(repo, sha, cache_dir) if sha else None
    if sha and files is not None:
        return Commit(repo, revision, sha, files)
    return _ask(repo, revision, cache_dir, progress)


def fetch(commit: Commit, names: Iterable[str], cache_dir: Path, progress: Progress) -> Path:
    """The folder that holds `names` at that commit, downloaded where they are not in the cache. Raises as `pin`."""
    wanted = tuple(names)
    folder = Path(
        _patiently(
            commit.repo,
            commit.revision,
            lambda: snapshot_download(
                commit.repo,
                revision=commit.sha,
                cache_dir=cache_dir,
                endpoint=constants.ENDPOINT,
                allow_patterns=[glob.escape(n) for n in wanted],
                tqdm_class=_NoBar,
                library_name="hotfoot",
            ),
            progress,
        )
    )
    if missing := [n for n in wanted if not (folder / n).is_file()]:
        raise ArtifactError(
            f"{commit.repo} at {commit.sha}: not downloaded: {', '.join(missing)}.", hint="Does HF_ENDPOINT name a hub's mirror?"
        )
    return folder


def is_cached(commit: Commit, name: str, cache_dir: Path) -> bool:
    """True where the file of that commit needs no download."""
    return isinstance(try_to_load_from_cache(commit.repo, name, cache_dir=cache_dir, revision=commit.sha), str)


def _ask(repo: str, revision: str, cache_dir: Path, progress: Progress) -> Commit:
    api = HfApi(endpoint=constants.ENDPOINT, library_name="hotfoot")
    # one request for the commit and its files: between two, a branch could move
    info = _patiently(repo, revision, lambda: api.model_info(repo, revision=revision, files_metadata=True, timeout=TIMEOUT_S), progress)
    if not info.sha or not FULL_SHA.fullmatch(info.sha) or (FULL_SHA.fullmatch(revision) and info.sha != revision):
        raise ArtifactError(f"{_endpoint()} answers {repo}@{revision} with commit {info.sha!r}.", hint="Does HF_ENDPOINT name a hub?")
    if info.id != repo:
        progress(f"{repo} has moved to {info.id}")
    _remember(repo, revision, info.sha, cache_dir, progress)
    return Commit(repo, revision, info.sha, {s.rfilename: s.size or 0 for s in info.siblings or ()})


def _refs(repo: str, cache_dir: Path) -> Path:
    return cache_dir / repo_folder_name(repo_id=repo, repo_type="model") / "refs"


def _remember(repo: str, revision: str, sha: str, cache_dir: Path, progress: Progress) -> None:
    """Note a branch's commit where huggingface_hub's cache keeps it, for offline builds."""
    if revision == sha:
        return
    path = _refs(repo, cache_dir) / revision
    aside = path.with_name(path.name + ".part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        aside.write_text(sha, encoding="ascii")
        aside.replace(path)
    except OSError as error:  # a cache that is shared and read-only still serves this build
        progress(f"offline builds will not know {repo}@{revision}: {error.strerror} ({path})")


def _last_seen(repo: str, revision: str, cache_dir: Path, progress: Progress) -> str:
    path = _refs(repo, cache_dir) / revision
    sha = path.read_text(encoding="ascii").strip() if path.is_file() else ""
    if not FULL_SHA.fullmatch(sha):
        raise _not_cached(repo, revision)
    progress(f"offline: {repo}@{revision} was commit {sha} when last seen")
    return sha


def _not_cached(repo: str, revision: str) -> HotfootError:
    return InputError(
        f"{repo}@{revision} is not in the cache, and HF_HUB_OFFLINE forbids to fetch it.",
        hint="Build once without HF_HUB_OFFLINE, or give --revision a commit that was built before.",
    )


def _cached_files(repo: str, sha: str, cache_dir: Path) -> Mapping[str, int] | None:
    try:
        return {f.path: f.size for f in get_cached_repo_tree(repo, revision=sha, cache_dir=cache_dir)}
    except CachedRepoTreeNotFoundError:
        return None


def _patiently(repo: str, revision: str, call: Callable[[], T], progress: Progress) -> T:
    """Call; try again, a bounded number of times, what may work the next time. Raises HotfootError for the last failure."""
    for attempt in range(1, TRIES + 1):
        try:
            return call()
        except (httpx2.HTTPError, httpx2.InvalidURL, ValueError, OSError) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise  # this machine's: a full disk, a cache that cannot be written
            # huggingface_hub wraps what went wrong in "not in the cache either"
            told = _explain(repo, revision, error.__cause__ if isinstance(error, LocalEntryNotFoundError) and error.__cause__ else error)
        if not isinstance(told, OverloadedError) or attempt == TRIES:
            raise told
        progress(f"{told.message} Trying again ({attempt + 1} of {TRIES}).")
        time.sleep(WAIT_S * attempt)
    raise AssertionError("unreachable")


def _explain(repo: str, revision: str, error: BaseException) -> HotfootError:
    """What the failure means to the user, in words of our own."""
    hub = _endpoint()
    if isinstance(error, HfHubHTTPError):
        return _explain_status(repo, revision, error)
    if isinstance(error, (OfflineModeIsEnabled, LocalEntryNotFoundError)):
        return _not_cached(repo, revision)
    if isinstance(error, (httpx2.UnsupportedProtocol, httpx2.InvalidURL)):
        return InputError(f"HF_ENDPOINT is not a usable address: {hub}", hint="Give it as https://HOST, or unset it.")
    if isinstance(error, httpx2.HTTPError):
        return OverloadedError(
            f"{hub} cannot be reached ({type(error).__name__}).",
            hint="Check the network and HF_ENDPOINT. A commit that was built before needs no network: give it as --revision.",
        )
    if isinstance(error, OSError) and not isinstance(error, FileMetadataError):
        return OverloadedError(f"a file of {repo} came incomplete from {hub}.", hint="Try again later.")
    return ArtifactError(f"{hub} does not answer as a model hub does ({type(error).__name__}).", hint="Check HF_ENDPOINT and any proxy.")


def _explain_status(repo: str, revision: str, error: HfHubHTTPError) -> HotfootError:
    hub, status = _endpoint(), error.response.status_code
    with_token = "authorization" in error.response.request.headers
    if isinstance(error, GatedRepoError) and with_token:
        return InputError(f"{repo} is gated, and the token was refused.", hint=f"Ask for access at {hub}/{repo} with the token's account.")
    if isinstance(error, GatedRepoError):
        return InputError(f"{repo} is gated.", hint=f"Accept its terms at {hub}/{repo} and set HF_TOKEN.")
    if isinstance(error, RevisionNotFoundError):
        return InputError(f"{repo} has no revision {revision!r}.", hint=f"Give --revision a branch, tag or commit of {hub}/{repo}.")
    if isinstance(error, RepositoryNotFoundError):
        hint = "Check the spelling, and that HF_TOKEN may read it." if with_token else "Check the spelling; a private model needs HF_TOKEN."
        return InputError(f"{hub} has no model {repo}.", hint=hint)
    if status in {401, 403}:
        return InputError(f"{hub} refuses the token for {repo} (HTTP {status}).", hint="Set HF_TOKEN to a valid token that may read it.")
    if status in {408, 429} or status >= 500:
        return OverloadedError(f"{hub} answers HTTP {status} for {repo}.", hint="Try again later.")
    return UnsupportedError(f"{hub} answers HTTP {status} for {repo}@{revision}.", hint="Check HF_ENDPOINT and the revision.")


def _endpoint() -> str:
    """The hub's address without the credentials it may hold."""
    parts = urlsplit(constants.ENDPOINT)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


def license_of(card: Path) -> str:
    """The licence that the model card's front matter names; empty where it names none or cannot be read."""
    try:
        meta = metadata_load(card) if card.is_file() else None
    except (yaml.YAMLError, ValueError):  # the card is prose for people; only what it says in form counts
        return ""
    said = (meta or {}).get("license")
    if said == "other" and isinstance((meta or {}).get("license_name"), str):
        said = (meta or {})["license_name"]
    return ", ".join(map(str, said)) if isinstance(said, list) else said if isinstance(said, str) else ""
