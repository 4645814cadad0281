"""One fetch in a process of its own: `python -m hotfoot_build.bench.weights_once HOW URL BUCKET KEY SIZE SHA256`, told as JSON.

HOW is hotfoot, which reads, checks and keeps; or plain, as many processes as hotfoot has connections, which read the same ranges over
bare HTTP and keep nothing: what the server gives at most to who does nothing else.
"""

from __future__ import annotations

import http.client
import json
import multiprocessing
import sys
import time
from multiprocessing.synchronize import Barrier
from pathlib import Path
from urllib.parse import urlsplit

from hotfoot import weights
from hotfoot.contract.manifest import WEIGHTS, FileEntry
from hotfoot.settings import S3Access

# the emulated S3 looks whether a request is signed, and not how
SIGNED = "AWS4-HMAC-SHA256 Credential=bench/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0"


def ours(url: str, bucket: str, key: str, entry: FileEntry) -> dict[str, object]:
    """Seconds, and bytes that the process grew to and by."""
    access = S3Access("us-east-1", url, "bench", "bench", None, None, None)
    before = _resident("VmRSS")
    start = time.perf_counter()
    held = weights.fetch(weights.reader(bucket, key, access), entry, f"s3://{bucket}/{key}")
    seconds = time.perf_counter() - start
    grown = _resident("VmHWM") - before
    held.close()
    return {"seconds": seconds, "grown_bytes": grown, "boto3": any(name in sys.modules for name in ("boto3", "botocore"))}


def plain(url: str, bucket: str, key: str, entry: FileEntry) -> dict[str, object]:
    """Seconds from when all are connected until the last has read its ranges."""
    starts = range(0, entry.size, weights.PART)
    lanes = [
        [(start, min(start + weights.PART, entry.size)) for start in starts[lane :: weights.AT_ONCE]] for lane in range(weights.AT_ONCE)
    ]
    context = multiprocessing.get_context("fork")
    barrier = context.Barrier(len(lanes) + 1)
    running = [context.Process(target=_lane, args=(url, f"/{bucket}/{key}", lane, barrier)) for lane in lanes]
    for process in running:
        process.start()
    barrier.wait()
    start = time.perf_counter()
    for process in running:
        process.join()
    seconds = time.perf_counter() - start
    if any(process.exitcode for process in running):
        raise SystemExit("a plain reader failed")
    return {"seconds": seconds}


def _lane(url: str, path: str, ranges: list[tuple[int, int]], barrier: Barrier) -> None:
    connection = http.client.HTTPConnection(urlsplit(url).netloc)
    connection.connect()
    buffer = bytearray(weights.PART)
    barrier.wait()
    for start, end in ranges:
        connection.request("GET", path, headers={"Range": f"bytes={start}-{end - 1}", "Authorization": SIGNED})
        answer, at = connection.getresponse(), 0
        while found := answer.readinto(memoryview(buffer)[at : end - start]):
            at += found
        if at != end - start:
            raise SystemExit(f"{at} bytes of {end - start}, status {answer.status}")
        answer.close()


def _resident(name: str) -> int:
    line = next(line for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines() if line.startswith(f"{name}:"))
    return int(line.split()[1]) * 1024


def main(how: str, url: str, bucket: str, key: str, size: str, digest: str) -> None:
    """Fetch, and say what it took."""
    entry = FileEntry(WEIGHTS, int(size), digest)
    sys.stdout.write(json.dumps((ours if how == "hotfoot" else plain)(url, bucket, key, entry)))


if __name__ == "__main__":
    main(*sys.argv[1:])
