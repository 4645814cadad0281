"""An artifact's weights out of S3, straight into memory: in ranges side by side, and checked against the manifest as they come.

obstore does what takes care: connections, signatures and second tries. It is imported in 10 ms, where boto3's client takes 300.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import mmap
import re
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

from hotfoot.contract.errors import ArtifactError, UnsupportedError
from hotfoot.contract.manifest import WEIGHTS, FileEntry, Manifest
from hotfoot.settings import S3Access

PART = 8 * 2**20  # bytes a request: as few requests as that, and not much left for one of them alone at the end
AT_ONCE = 8  # requests
CHUNK = 2**20  # bytes of a request that are taken over at once: with AT_ONCE what the weights take beside themselves
CONNECT_S, REQUEST_S = 2, 10
# no further try after so long, so that a store which does not answer is told of after 20 s: a function has 29 by default
TRIES = {"max_retries": 4, "retry_timeout": timedelta(seconds=15)}
M_MMAP_THRESHOLD, M_TRIM_THRESHOLD = -3, -1  # glibc's mallopt
AGAIN = "Deploy the bundle again."
GLIBC_START, GLIBC_MOST = 128 * 1024, 32 * 2**20  # where its threshold begins, and how far it moves up by itself


@dataclass(frozen=True)
class Held:
    """The weights in memory, for whoever opens the graphs; they may be let go once all of them are open."""

    buffer: mmap.mmap

    def give(self, options: Any) -> None:
        """Have a session that is opened with these options read them here, and not from a file beside its graph."""
        options.add_external_initializers_from_files_in_memory([WEIGHTS], [self.buffer], [len(self.buffer)])


def hold(manifest: Manifest, url: str, access: S3Access) -> Held:
    """The artifact's weights from `url` (`s3://BUCKET/KEY`).

    Raises ArtifactError where they cannot be had or are not those of the manifest, UnsupportedError where obstore is not installed.
    """
    entry = next((file for file in manifest.files if file.path == WEIGHTS), None)
    if entry is None:
        raise ArtifactError(
            f"HOTFOOT_WEIGHTS names {url}, and the artifact has no {WEIGHTS}.", hint="Unset it, or build the artifact again."
        )
    bucket, key = place(url)
    return Held(fetch(reader(bucket, key, access), entry, url))


def place(url: str) -> tuple[str, str]:
    """Bucket and key of an address. Raises ArtifactError for another kind of address, and for a key that obstore cannot name."""
    parts = urlsplit(url)
    names = re.fullmatch(r"[A-Za-z0-9._-]+", parts.netloc) and not {"", ".", ".."} & set(parts.path[1:].split("/"))
    # urlsplit drops line breaks without a word
    if parts.scheme != "s3" or not names or parts.query or parts.fragment or not url.isprintable():
        raise ArtifactError(f"HOTFOOT_WEIGHTS={url!r} in the environment is not of the form s3://BUCKET/KEY.")
    return parts.netloc, parts.path[1:]


Read = Callable[[int, int], tuple[int, Iterable[Any]]]  # of a range: how large the whole is, and its bytes piece by piece


def fetch(read: Read, entry: FileEntry, url: str) -> mmap.mmap:
    """The bytes of `entry`, by `read(start, end)`, each part put where it belongs. Raises ArtifactError as `hold` does."""
    whole, digest, ended = mmap.mmap(-1, entry.size), hashlib.sha256(), threading.Event()

    def part(start: int) -> int:
        """Where the part from `start` ends; it is not begun once another has failed, as it could take as long to fail as that one."""
        if ended.is_set():
            return start
        try:
            return _take(read, whole, start, entry, url)
        except BaseException:
            ended.set()
            raise

    with ThreadPoolExecutor(AT_ONCE) as pool, memoryview(whole) as view:
        parts, start = [pool.submit(part, start) for start in range(0, entry.size, PART)], 0
        try:
            for made in parts:
                digest.update(view[start : made.result()])
                start = made.result()
        finally:
            ended.set()
    if digest.hexdigest() != entry.sha256:
        raise ArtifactError(f"{url} was changed: its sha256 is {digest.hexdigest()}, the manifest says {entry.sha256}.", hint=AGAIN)
    return whole


def _take(read: Read, whole: mmap.mmap, start: int, entry: FileEntry, url: str) -> int:
    """Read the part from `start` into its place; gives where it ends."""
    end, at = min(start + PART, entry.size), start
    with _told(url, start):
        size, pieces = read(start, end)
        if size != entry.size:
            raise ArtifactError(f"{url} has {size} bytes, the manifest says {entry.size}.", hint=AGAIN)
        for piece in pieces:
            whole[at : at + len(piece)] = memoryview(piece)
            at += len(piece)
    if at != end:
        raise ArtifactError(f"{url} could not be read: of bytes {start} to {end} came {at - start}.", hint="Is S3 reachable?")
    return end


@contextmanager
def _told(url: str, start: int) -> Iterator[None]:
    """What obstore raises, in words."""
    from obstore import exceptions

    try:
        yield
    except FileNotFoundError:
        raise ArtifactError(f"there is no object {url}.", hint=AGAIN) from None
    except exceptions.PermissionDeniedError as error:
        hint = "The function's role must allow s3:GetObject on it."
        raise ArtifactError(f"{url} may not be read: {_reason(error)}.", hint=hint) from None
    except exceptions.UnauthenticatedError as error:
        hint = "The credentials that were found do not hold, or none were."
        raise ArtifactError(f"{url} may not be read: {_reason(error)}.", hint=hint) from None
    except (exceptions.BaseError, OSError) as error:
        raise ArtifactError(f"{url} could not be read from byte {start} on: {_reason(error)}.", hint="Is S3 reachable?") from None


def _reason(error: Exception) -> str:
    """One line, and of what S3 answered its code alone: of a session token that does not hold it sends the whole back."""
    text = str(error).strip()
    code = re.search(r"<Code>\s*(\w+)", text)
    said = re.split(r"\s*<(?:\?xml|Error)\b", text, maxsplit=1)[0].splitlines()
    return " ".join([*(said[:1] or [type(error).__name__]), *([code[1]] if code else [])]).rstrip(" .")


def reader(bucket: str, key: str, access: S3Access) -> Read:
    """What reads the bytes from `start` to before `end` of an object; it raises what obstore raises."""
    try:
        import obstore
        from obstore.store import S3Store
    except ModuleNotFoundError:
        raise UnsupportedError("weights in S3 are read by obstore, which is not installed.", hint="Install hotfoot[s3].") from None

    store = S3Store(
        bucket,
        config=_config(access),
        client_options={
            "allow_http": (access.endpoint or "").lower().startswith("http:"),
            "connect_timeout": timedelta(seconds=CONNECT_S),
            "timeout": timedelta(seconds=REQUEST_S),
        },
        retry_config=TRIES,  # type: ignore[arg-type]
        credential_provider=_of_container(access) if access.container_url else None,
    )

    def read(start: int, end: int) -> tuple[int, Iterable[Any]]:
        found = obstore.get(store, key, options={"range": (start, end)})
        return found.meta["size"], found.stream(min_chunk_size=CHUNK)

    return read


def _config(access: S3Access) -> Any:
    found: dict[str, Any] = {
        "region": access.region,
        "endpoint": access.endpoint,
        "access_key_id": access.key_id,
        "secret_access_key": access.secret,
        "session_token": access.token,
    }
    return {name: value for name, value in found.items() if value is not None}


def _of_container(access: S3Access) -> Callable[[], Any]:
    """Credentials of the endpoint that a function under SnapStart has in the place of keys in its environment."""

    def credentials() -> dict[str, Any]:
        from urllib.request import ProxyHandler, Request, build_opener

        direct = build_opener(ProxyHandler({}))  # it is this machine's own, and no proxy's business
        headers = {"Authorization": access.container_token} if access.container_token else {}
        # the address is the environment's own, as every client of AWS takes it
        with direct.open(Request(str(access.container_url), headers=headers), timeout=CONNECT_S) as answer:  # noqa: S310
            found = json.load(answer)
        return {
            "access_key_id": found["AccessKeyId"],
            "secret_access_key": found["SecretAccessKey"],
            "token": found.get("Token"),
            "expires_at": datetime.fromisoformat(found["Expiration"]) if found.get("Expiration") else None,
        }

    return credentials


@contextmanager
def returning_memory() -> Iterator[None]:
    """Have freed memory go back at once while graphs are opened: each weight is copied, packed anew and freed, one after the other.

    glibc keeps what is freed once it has seen large blocks go, and all copies stay: 612 MB for 294 MB of weights, and 335 with this.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # absent outside Linux
    if mallopt is None:
        yield
        return
    mallopt(M_MMAP_THRESHOLD, GLIBC_START)
    try:
        yield
    finally:  # as high as it moves by itself, or every large array of a request would be asked of the kernel anew
        mallopt(M_MMAP_THRESHOLD, GLIBC_MOST)
        mallopt(M_TRIM_THRESHOLD, 2 * GLIBC_MOST)
