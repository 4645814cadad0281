"""Rigged artifacts whose weights lie beside their graph, as those of real models do."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hotfoot.contract import manifest as manifests
from hotfoot.contract.manifest import MANIFEST, WEIGHTS
from hotfoot_build import graph, weights
from support.rigged import Rig, rigged_artifact

LEAST = 64  # bytes: more than what shapes are read from, which must stay in the graph


def parted_artifact(directory: Path, task: str, rig: Rig | None = None) -> Path:
    """As `rigged_artifact`, in the form that `hotfoot build` writes."""
    made = rigged_artifact(directory, task, rig)
    found = manifests.read(made)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(weights, "LEAST", LEAST)
        graphs = weights.save([graph.load(made / spec.file, spec.role) for spec in found.graphs], made)
    files = manifests.describe(made, [made / name for name in (*(file.path for file in found.files), WEIGHTS)])
    (made / MANIFEST).write_text(manifests.dumps(replace(found, graphs=graphs, files=files)), encoding="utf-8")
    return made
