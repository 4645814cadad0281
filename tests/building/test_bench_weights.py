"""`scripts/bench weights` on a small file: both ways read all of it, and what is written. No test asks how long anything took."""

from __future__ import annotations

import pytest

from hotfoot import weights as fetching
from hotfoot_build.bench import timing, weights
from hotfoot_build.progress import silent

pytestmark = pytest.mark.slow
COUNT = fetching.PART + 12_345  # two ranges, one of them short


def test_every_fetch_is_whole_and_told() -> None:
    found = weights.run(COUNT, timing.LEAST_ROUNDS, silent())
    assert (found.file_bytes, found.rounds, found.boto3) == (COUNT, timing.LEAST_ROUNDS, False)
    assert min(found.seconds, found.plain_seconds) > 0
    assert found.grown >= 1, "it keeps what it reads"
    page = weights.markdown(found)
    assert page.startswith("# What reading weights from S3 costs\n")
    assert "8.4 MB, 8 ranges of 8.4 MB at once" in page
    assert "| boto3 is not imported | absent | yes |" in page
