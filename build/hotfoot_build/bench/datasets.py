"""Texts that people have judged, out of pinned packages: fetched by pip on first use, kept in the user's cache."""

from __future__ import annotations

import io
import random
import subprocess
import sys
import tarfile
import zipfile
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hotfoot.contract.errors import ArtifactError
from hotfoot_build import cache

LEE = {
    "gensim/test/test_data/lee.cor": "a878f9a58f6743c32985c56c2f2f75988386216b38a4023a01fd3bcf7884d93e",
    "gensim/test/test_data/similarities0-1.txt": "23762bc6b728897144dda3d324a2c032dc1e059e1009806226d64b6dd123ed79",
}
VADER = "5d7c06e027fc8b99238edb0d53d970cf97066ef97654009890b83703849632f9"  # the source package: the wheel has no sentences
LEAST_RATING = 0.5  # of 4: nearer to zero, the 20 raters do not agree


@dataclass(frozen=True)
class Similarities:
    """Texts, and how similar people find each pair: (texts, texts), from 0 to 1."""

    texts: tuple[str, ...]
    human: NDArray[np.float64]

    def pearson(self, vectors: NDArray[np.float32]) -> float:
        """How far the vectors' cosines go along with people's judgement: Pearson's correlation over all pairs."""
        unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        upper = np.triu_indices(len(self.texts), 1)
        return float(np.corrcoef((unit @ unit.T)[upper], self.human[upper])[0, 1])


@dataclass(frozen=True)
class Sentences:
    """Sentences, and whether people find each positive."""

    texts: tuple[str, ...]
    positive: tuple[bool, ...]


def lee() -> Similarities:
    """50 news texts (Lee, Pincombe and Welsh 2005), out of gensim's test data. Raises ArtifactError when it cannot be had."""
    package = _fetch("gensim==4.4.0", "gensim-4.4.0-*.whl")
    with zipfile.ZipFile(package) as archive:
        texts, table = (_checked(name, archive.read(name), wanted).decode("latin-1") for name, wanted in LEE.items())
    human = [[float(v) for v in line.split()] for line in table.splitlines() if line.strip()]
    return Similarities(tuple(texts.splitlines()), np.array(human))


def vader() -> Sentences:
    """1,305 sentences of film and product reviews (Hutto and Gilbert 2014). Raises ArtifactError when they cannot be had.

    They are a tenth of all, which a model that learnt from the other nine has not seen.
    """
    package = _fetch("vaderSentiment==3.3.2", "vaderSentiment-3.3.2.tar.gz", "--no-binary", "vaderSentiment")
    _checked(package.name, package.read_bytes(), VADER)
    rated: list[tuple[str, bool]] = []
    with tarfile.open(package) as outer:
        inner = outer.extractfile("vaderSentiment-3.3.2/additional_resources/hutto_ICWSM_2014.tar.gz")
        with tarfile.open(fileobj=io.BytesIO(inner.read() if inner else b"")) as archive:
            for kind in ("movieReviewSnippets", "amazonReviewSnippets"):
                file = archive.extractfile(f"hutto_ICWSM_2014/{kind}_GroundTruth.txt")
                rated += _rated(file.read().decode("utf-8", errors="replace") if file else "")
    random.Random(0).shuffle(rated)  # noqa: S311 - the split that is known as held out
    kept = rated[: len(rated) // 10]
    return Sentences(tuple(text for text, _ in kept), tuple(positive for _, positive in kept))


def _rated(text: str) -> list[tuple[str, bool]]:
    """Lines of id, mean rating from -4 to 4, sentence."""
    rows = (line.split("\t") for line in text.split("\n"))
    return [(row[2].strip(), float(row[1]) > 0) for row in rows if len(row) >= 3 and abs(float(row[1])) >= LEAST_RATING]


def _checked(name: str, content: bytes, wanted: str) -> bytes:
    found = sha256(content).hexdigest()
    if found != wanted:
        raise ArtifactError(f"{name} has sha256 {found}, not {wanted}.", hint="Remove the package from the cache and try again.")
    return content


def _fetch(requirement: str, pattern: str, *flags: str) -> Path:
    """The package's file in the cache. Raises ArtifactError with pip's last words."""
    folder = cache.root() / "bench"
    if not any(folder.glob(pattern)):
        folder.mkdir(exist_ok=True)
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps", "--dest", str(folder)]
        done = subprocess.run([*command, *flags, requirement], stderr=subprocess.PIPE, text=True, check=False)
        if done.returncode:
            tail = "\n".join(done.stderr.strip().splitlines()[-4:])
            raise ArtifactError(f"{requirement} cannot be fetched; pip said:\n{tail}")
    return next(folder.glob(pattern))
