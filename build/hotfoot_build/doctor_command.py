"""`hotfoot doctor`: the checks run in order, and what they found as a checklist or as JSON."""

from __future__ import annotations

import json
import os
import re
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace

from rich.console import Console

from hotfoot import targets
from hotfoot.contract.errors import EXIT_CODES, HotfootError
from hotfoot.contract.target import Target
from hotfoot_build import doctor, edge
from hotfoot_build.doctor import Check, Finding, Status
from hotfoot_build.progress import say

WIDEST = 100  # columns, however wide the terminal is
SECRET = re.compile(r"TOKEN|SECRET|PASSWORD|PASSWD|KEY")
MARKS: dict[Status, tuple[str, str, str]] = {  # mark, mark where the terminal has ASCII only, style
    "ok": ("✓", "+", "green"),
    "warning": ("!", "!", "yellow"),
    "missing": ("✗", "x", "bold red"),
}


def run(target: str | None, console: Console, *, as_json: bool) -> int:
    """Examine this machine, print what was found, and give the exit code. Raises UnsupportedError for an unknown target."""
    found = examine(targets.load(target) if target else None)
    missing = [finding.name for finding in found if finding.status == "missing"]
    if as_json:
        document = {"target": target, "ok": not missing, "findings": [asdict(finding) for finding in found]}
        console.out(json.dumps(document, indent=2), highlight=False)
    else:
        checklist(found, console)
        console.print()
        say(console, f"Missing: {', '.join(missing)}." if missing else "All that is needed is here.")
    return EXIT_CODES["unsupported"] if missing else 0


def examine(target: Target | None = None) -> list[Finding]:
    """All findings, or those for one target, in order. No secret of the environment is in them, and a check that fails is one of them."""
    return [_discreet(finding) for check in doctor.checks(target) for finding in _guarded(check, target)]


def _guarded(check: Check, target: Target | None) -> Sequence[Finding]:
    try:
        return check(target)
    except ModuleNotFoundError as error:
        why = edge.lack(error) or str(error)
    except HotfootError as error:
        why = str(error)
    except OSError as error:
        why = edge.refusal(error)
    except Exception as error:  # noqa: BLE001 - whatever this machine has in store, the other checks are still worth their answer
        why = f"{type(error).__name__}: {error}"
    return [Finding(check.__name__.replace("_", " "), "warning", f"could not be checked: {why}")]


def _discreet(finding: Finding) -> Finding:
    """Without the values of variables that are secret by their names: what a library or the system says may quote them."""
    detail, fix = finding.detail, finding.fix
    for name, value in os.environ.items():
        if len(value) >= 6 and SECRET.search(name):  # a shorter one would take its letters from other words
            detail, fix = detail.replace(value, f"${name}"), fix.replace(value, f"${name}")
    return replace(finding, detail=detail, fix=fix)


def checklist(found: Iterable[Finding], console: Console) -> None:
    """Mark, name and detail a finding, and below, indented, what to type. Only details are wrapped: fixes are there to be copied."""
    found = list(found)
    width = max((len(finding.name) for finding in found), default=0)
    ascii_only = not console.encoding.lower().startswith("utf")
    for finding in found:
        mark, plain, style = MARKS[finding.status]
        room = max(20, min(console.width, WIDEST) - width - 4)
        first, *more = textwrap.wrap(finding.detail, room, break_long_words=False, break_on_hyphens=False) or [""]
        say(console, (plain if ascii_only else mark, style), f" {finding.name:<{width}}  {first}")
        for line in more:
            say(console, f"{'':<{width + 4}}{line}")
        for line in finding.fix.splitlines():
            say(console, (f"      {line}", "cyan"))
