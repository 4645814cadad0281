"""Rides in a function as its handler, keeps time while the real one is imported, and tells it when it is asked. Standard library only.

Every moment belongs to the innermost thing that is under way: the import of a package, or one of the runtime's own steps. So the parts
never overlap, and nothing is counted twice. The runtime itself has no line of this: what is timed is wrapped as it is loaded.
"""

# ruff: noqa: E402 - the clocks are read before anything is imported that could take time
from __future__ import annotations

import time

FIRST = (time.perf_counter(), time.process_time())

import importlib
import os
import sys
import threading
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

MODULE = "hotfoot_cold_probe"  # its name in the function, where it is a file by itself
HANDLER = "HOTFOOT_COLD_HANDLER"  # names the real handler; without it this module does nothing
REPORT = "hotfoot_cold_report"  # an event with this key is answered with the report
IMPORT = "import "  # begins the labels of imports; the package follows
STDLIB = "standard library"
# what of the runtime is timed, by module and name, and its label
STEPS: Mapping[str, Mapping[str, str]] = {
    "hotfoot.model": {"open_tokenizer": "tokenizer", "opened": "session", "Model.open": "open", "Model.warm_up": "warm-up"},
    "hotfoot.http.app": {"create_app": "app"},
}
ANSWER = "answer"
TRIES = 500  # of the clock, to know what one reading costs


class Clock:
    """The seconds of one thread, and the CPU seconds of the whole process meanwhile, by label."""

    def __init__(self, wall: float, cpu: float) -> None:
        """Start at these readings of `perf_counter` and `process_time`."""
        self.spent: dict[str, list[float]] = {}
        self.turns = 0
        self._wall, self._cpu = wall, cpu
        self._under_way = [""]
        self._thread = threading.get_ident()

    @property
    def here(self) -> bool:
        """Whether this is the clock's own thread: two at once would have no innermost thing."""
        return threading.get_ident() == self._thread

    def enter(self, label: str) -> None:
        """From now on it is `label` that takes the time."""
        self._charge()
        self._under_way.append(label)

    def leave(self) -> None:
        """From now on it is again what was under way before."""
        self._charge()
        self._under_way.pop()

    def _charge(self) -> None:
        wall, cpu = time.perf_counter(), time.process_time()
        part = self.spent.setdefault(self._under_way[-1], [0.0, 0.0])
        part[0] += wall - self._wall
        part[1] += cpu - self._cpu
        self._wall, self._cpu = wall, cpu
        self.turns += 1

    def timed(self, label: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, its calls on the clock's thread charged to `label`."""

        def call(*args: Any, **kwargs: Any) -> Any:
            if not self.here:
                return function(*args, **kwargs)
            self.enter(label)
            try:
                return function(*args, **kwargs)
            finally:
                self.leave()

        return call


class Probe:
    """A real handler behind a clock."""

    def __init__(self, first: tuple[float, float]) -> None:
        """first: wall and CPU clock at the first line of this module."""
        self.clock = Clock(*first)
        self.missing: list[str] = []
        self._first = first
        self._steps = {module: dict(names) for module, names in STEPS.items()}
        self._ready_s = 0.0
        self._real: Callable[[Any, Any], Any] | None = None

    def open(self, handler: str) -> None:
        """Import the handler, as AWS's client would have."""
        self._watch_imports()
        module, _, name = handler.rpartition(".")
        self._real = getattr(importlib.import_module(module), name)
        self._ready_s = time.perf_counter() - self._first[0]

    def _watch_imports(self) -> None:
        """Charge what `python -X importtime` measures, at the place where it does: the one function that loads what is not loaded yet.

        It is called once a module, not once an import statement; a finder in front of the others would not see what it costs to find.
        """
        machinery: Any = sys.modules["_frozen_importlib"]
        load, clock = machinery._find_and_load, self.clock  # noqa: SLF001 - CPython looks it up there for each load

        def find_and_load(name: str, import_: Any) -> ModuleType:
            if not clock.here:
                return load(name, import_)  # type: ignore[no-any-return] # whatever it gives
            clock.enter(IMPORT + name.partition(".")[0])
            try:
                module: ModuleType = load(name, import_)
            finally:
                clock.leave()
            if name in self._steps:
                self._wrap(module, self._steps.pop(name))
            return module

        machinery._find_and_load = find_and_load  # noqa: SLF001

    def _wrap(self, module: ModuleType, names: Mapping[str, str]) -> None:
        """Time these functions and methods of a module, before whoever imports it can take hold of them."""
        for path, label in names.items():
            outer, _, name = path.rpartition(".")
            owner: Any = getattr(module, outer, None) if outer else module
            found = vars(owner).get(name) if owner is not None else None
            if found is None:
                self.missing.append(f"{module.__name__}.{path}")
            elif isinstance(found, classmethod):
                setattr(owner, name, classmethod(self.clock.timed(label, found.__func__)))
            else:
                setattr(owner, name, self.clock.timed(label, found))

    def answer(self, event: Any, context: Any) -> Any:
        """The real handler's answer, or the report where that is asked for."""
        if isinstance(event, dict) and REPORT in event:
            return self.report()
        if self._real is None:
            raise RuntimeError(f"{HANDLER} is not set")
        return self.clock.timed(ANSWER, self._real)(event, context)

    def report(self) -> dict[str, Any]:
        """Seconds, as [wall, CPU] where there are two: before the first line of this module, in all, and by label.

        ready_s: from that line until the handler stood. own_s: what the clock itself took, which is in the parts. missing: what was to be
        timed and is not in this runtime.
        """
        in_all, turns = time.process_time(), self.clock.turns
        spent: dict[str, list[float]] = {}
        for label, (wall, cpu) in self.clock.spent.items():
            if label:
                into = spent.setdefault(told(label), [0.0, 0.0])
                into[0] += wall
                into[1] += cpu
        return {
            "first_cpu_s": self._first[1],
            "ready_s": self._ready_s,
            "cpu_s": in_all,
            "own_s": turns * reading_s(),
            "spent": spent,
            "missing": self.missing,
        }


def told(label: str) -> str:
    """The label, all modules of the standard library being one package."""
    return IMPORT + STDLIB if label.startswith(IMPORT) and label.removeprefix(IMPORT) in sys.stdlib_module_names else label


def reading_s() -> float:
    """Seconds that one reading of the clock takes."""
    clock = Clock(time.perf_counter(), time.process_time())
    start = time.perf_counter()
    for _ in range(TRIES):
        clock.enter("")
        clock.leave()
    return (time.perf_counter() - start) / (2 * TRIES)


_probe = Probe(FIRST)
handler = _probe.answer
if os.environ.get(HANDLER):
    _probe.open(os.environ[HANDLER])
