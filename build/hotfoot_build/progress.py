"""Progress of long work: a line a step with its seconds, and what goes on inside it while it lasts."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from io import StringIO

from rich.console import Console
from rich.text import Text

HEARTBEAT_S = 10  # without a terminal, a sign of life at most this often


@dataclass
class Step:
    """One running step: call it to say what goes on now, set `result` to what came of it."""

    say: Callable[[str], None]
    result: str = ""

    def __call__(self, message: str) -> None:
        """Show what goes on."""
        self.say(message)


@dataclass
class Progress:
    """Prints steps to `console`, and keeps the seconds of each."""

    console: Console
    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def step(self, name: str) -> Iterator[Step]:
        """Run a step: a spinner on a terminal, plain lines elsewhere."""
        start = time.perf_counter()
        if self.console.is_terminal:
            with self.console.status(Text(f"{name} …")) as status:
                step = Step(lambda message: status.update(Text.assemble(f"{name} … ", (message, "dim"))))
                yield step
        else:
            step = Step(self._heartbeat(name))
            yield step
        self.seconds[name] = round(time.perf_counter() - start, 3)
        say(self.console, f"  {name:<10} {self.seconds[name]:6.1f} s  {step.result}")

    def note(self, message: str) -> None:
        """A line between the steps."""
        say(self.console, f"  {message}")

    def _heartbeat(self, name: str) -> Callable[[str], None]:
        last = time.perf_counter()

        def beat(message: str) -> None:
            nonlocal last
            if time.perf_counter() - last >= HEARTBEAT_S:
                last = time.perf_counter()
                say(self.console, f"  {name} … {message}")

        return beat


def silent() -> Progress:
    """For a step inside a step, which says by itself what goes on."""
    return Progress(Console(file=StringIO()))


def say(console: Console, *parts: str | tuple[str, str]) -> None:
    """Print a line of text, or of (text, style): words as they are, and nothing in brackets or between colons read as markup."""
    console.print(Text.assemble(*parts), soft_wrap=True)


def size(count: float) -> str:
    """Bytes for people: 23.5 MB."""
    return f"{count / 1e6:.1f} MB" if count >= 1e5 else f"{count / 1e3:.1f} kB"
