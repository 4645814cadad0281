"""Cold starts of a bundle with the probe in it: a fresh execution environment each, one after the other."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hotfoot.contract import bundle as bundles
from hotfoot.contract import codec
from hotfoot.contract.bundle import BUNDLE, Bundle, LayerDir
from hotfoot.contract.errors import ArtifactError, HotfootError, UnsupportedError
from hotfoot_build.cold import probe
from hotfoot_build.cold.budget import Start, start_of
from hotfoot_build.package import bytecode, interpreters
from hotfoot_build.package.emulate import Emulator, InvocationError

TIMEOUT_S = 300  # no limit of the function is measured here
SHOWN = 12  # lines of the function's log that an error quotes


@dataclass(frozen=True)
class Measured:
    """The starts, and what of the runtime the probe did not find."""

    starts: tuple[Start, ...]
    missing: tuple[str, ...]


def measure(bundle: Path, event: Mapping[str, Any], *, runs: int, memory_mb: int, say: Callable[[str], None]) -> Measured:
    """Start the bundle `runs` times, and once before, uncounted, so that every start finds its files in memory.

    Raises UnsupportedError where this machine cannot run it, ArtifactError where it does not start or refuses the event, HotfootError
    where the emulator fails.
    """
    found = []
    with probed(bundle) as staged:
        handler = bundles.read(bundle).handler
        for number in range(runs + 1):
            say(f"start {number} of {runs}" if number else "a first one, which is not counted")
            found.append(_start(staged, handler, event, memory_mb))
    (missing, _), *counted = found
    return Measured(tuple(start for _, start in counted), missing)


@contextmanager
def probed(bundle: Path) -> Iterator[Path]:
    """The same bundle with the probe as its handler and as a layer more. Nothing is copied: its index names the folders where they lie."""
    made = bundles.read(bundle)
    interpreter = interpreters.find(made.python)
    if interpreter is None:
        raise UnsupportedError(f"no Python {made.python} on this machine.", hint=f"Run `uv python install {made.python}`.")

    def there(layer: LayerDir) -> LayerDir:
        return replace(layer, path=str((bundle / layer.path).resolve()))

    with tempfile.TemporaryDirectory(prefix="hotfoot-cold-") as folder:
        python = Path(folder) / "probe" / "python"
        python.mkdir(parents=True)
        shutil.copyfile(probe.__file__, python / f"{probe.MODULE}.py")
        if made.bytecode:
            bytecode.compile_tree(python, interpreter, shown_as="/opt/python")
        layer = LayerDir("code", str(python.parent), "0" * 64, 0, 0)
        layers = (*map(there, made.layers), layer)
        weights = None if made.weights is None else there(made.weights)
        staged: Bundle = replace(made, handler=f"{probe.MODULE}.handler", layers=layers, code=there(made.code), weights=weights)
        (Path(folder) / BUNDLE).write_text(codec.dumps(staged), encoding="utf-8")
        yield Path(folder)


def _start(staged: Path, handler: str, event: Mapping[str, Any], memory_mb: int) -> tuple[tuple[str, ...], Start]:
    function = Emulator(staged, memory_mb=memory_mb, timeout_s=TIMEOUT_S, env={probe.HANDLER: handler})
    with function:
        begun = time.perf_counter()
        try:
            answer = function.invoke(event)
        except InvocationError as error:
            ended = error.error_type.startswith(("Runtime.", "Sandbox."))  # else it raised, and says why by itself
            raise ArtifactError(f"the function did not start: {error.message}", hint=_end_of(function.log) if ended else "") from error
        except OSError as error:
            raise HotfootError(f"the emulator did not answer: {error}.", hint=_end_of(function.log)) from error
        wall_s, usage = time.perf_counter() - begun, function.usage()
        check(answer)
        report, inits = function.invoke({probe.REPORT: True}), function.init_ms
    if len(inits) != 1:
        raise HotfootError(f"the emulator's log tells of {len(inits)} inits, not of one.", hint=_end_of(function.log))
    start = start_of(report, wall_s=wall_s, init_s=inits[0] / 1e3, peak_bytes=usage.max_rss_bytes)
    return tuple(report["missing"]), start


def check(answer: Any) -> None:
    """Raise ArtifactError unless the function answered 200: what a refusal takes is no first answer."""
    status = answer.get("statusCode") if isinstance(answer, dict) else None
    if status != 200:
        said = answer.get("body") if isinstance(answer, dict) else answer
        raise ArtifactError(f"the first event was answered with status {status}: {str(said)[:500]}", hint="Ask something else with --text.")


def _end_of(log: str) -> str:
    lines = [line for line in log.replace("\r", "\n").splitlines() if line.strip() and "(rapid)" not in line]
    return "The end of its log:\n" + "\n".join(f"  {line}" for line in lines[-SHOWN:])
