"""What Lambda's x86 machines may be: AVX2 and no more. Emulated, so that the kernels for such a CPU run wherever the tests do."""

from __future__ import annotations

import json
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from hotfoot.model import Model
from hotfoot.tasks._vectors import cosine
from support import real

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(platform.machine() != "x86_64", reason="x86's kernels are tested on x86"),
]
TEXTS = ["A man is playing a guitar on stage.", "The stock market fell sharply on Monday.", "Café Zoë. " * 20, "Rain."]


def test_int8_is_exact_and_texts_are_independent_on_avx2(tmp_path: Path) -> None:
    emulator = shutil.which("qemu-x86_64-static") or shutil.which("qemu-x86_64")
    assert emulator, "needs qemu's user-mode emulation: apt-get install qemu-user-static"
    built = real.artifact("embed", "int8", "lambda-x86_64")
    script = Path(real.__file__).with_name("inside_avx2.py")
    command = [emulator, "-cpu", "Haswell", sys.executable, str(script), str(built.path), json.dumps(TEXTS), str(tmp_path / "out.npz")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    with np.load(tmp_path / "out.npz") as found:
        exact, full_range = found["errors"].tolist()
        together, alone = found["together"], found["alone"]
    assert full_range > 0, "this emulator sums in 32 bits: the test would prove nothing"
    assert exact == 0
    assert np.array_equal(together, alone)
    here = Model.open(built.path, foreign=True).outputs(tuple(TEXTS))[1]
    assert min(cosine(a, b) for a, b in zip(together, here, strict=True)) > 0.99999
