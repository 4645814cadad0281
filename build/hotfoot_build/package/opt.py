"""Layers laid over each other by links, as Lambda lays them into /opt."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path


def merge_layers(layers: Sequence[Path], root: Path) -> None:
    """Lay `layers` over each other below `root`, by links: as in Lambda, a later layer's file hides an earlier one's."""
    names = sorted({entry.name for layer in layers for entry in layer.iterdir()})
    for name in names:
        having = [layer / name for layer in layers if (layer / name).exists()]
        if len(having) > 1 and all(p.is_dir() for p in having):
            (root / name).mkdir()
            merge_layers(having, root / name)
        else:
            (root / name).symlink_to(having[-1])


def laid_beside(folder: Path, linked: Path) -> None:
    """Make of a link to a folder a folder with the files of both: no links, as ONNX Runtime follows none out of a graph's folder."""
    sources = (linked.resolve(), folder)
    linked.unlink()
    linked.mkdir()
    for path in (path for source in sources for path in source.iterdir()):
        try:
            os.link(path, linked / path.name)
        except OSError:  # another device
            shutil.copyfile(path, linked / path.name)
