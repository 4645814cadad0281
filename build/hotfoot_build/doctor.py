"""`hotfoot doctor`: what this machine has for each thing that hotfoot does. It asks no network, and makes nothing but the cache folder.

A finding is `missing` where something that is needed is not there: always, or for the target that was asked about. What is optional, or
what nobody can be sure of from here, is a `warning` and fails nothing.
"""

from __future__ import annotations

import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Literal

from hotfoot import settings, targets
from hotfoot.contract.errors import HotfootError, UnsupportedError
from hotfoot.contract.target import Target
from hotfoot_build import advice, aws_profile, cache, edge, environment
from hotfoot_build.package import interpreters, wheels

Status = Literal["ok", "missing", "warning"]

EXPORT_BYTES = 1_500_000_000  # measured: 1.43 GB, without the wheels that pip unpacks on the way
NODE, OLDEST_NODE = 22, 20  # what the CDK asks for, and what it still runs on
EXTRAS = {"build": "build, bundle and check", "server": "hotfoot serve", "infra": "deploy with the CDK"}
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
QEMU = ("qemu-x86_64-static", "qemu-x86_64")
# variables that hotfoot reads: those whose values may be shown, and those that are secret or too long to
SHOWN = frozenset(
    "HOTFOOT_" + name
    for name in (
        "ANSWER_SHAPE", "ARTIFACT", "CACHE_MB", "CACHE_TABLE", "COLD_HANDLER", "EXPORT_PYTHON", "LAYER_ROOT", "LOG_LEVEL", "NAME",
        "RESULTS_BUCKET", "RESULTS_PREFIX", "THREADS", "WEIGHTS",
    )
)  # fmt: skip
HIDDEN = frozenset({"HOTFOOT_BULK", "HOTFOOT_CACHE_SECRET", "HOTFOOT_MODELS", "HOTFOOT_TOKEN"})


@dataclass(frozen=True)
class Finding:
    """What one check found. fix is what to type in a shell, more lines where there are alternatives; empty where nothing is to be done."""

    name: str
    status: Status
    detail: str
    fix: str = ""


Check = Callable[[Target | None], Sequence[Finding]]


def this_python(_: Target | None) -> list[Finding]:
    """The Python that runs this."""
    return [Finding("Python", "ok", f"{platform.python_implementation()} {platform.python_version()} in {advice.short(Path(sys.prefix))}")]


def extras(target: Target | None) -> list[Finding]:
    """What of hotfoot is installed: `build` is needed, `infra` is for a target on Lambda, `server` for this machine."""
    container = target is not None and not _is_lambda(target)
    wanted = [
        ("build", True),
        *([] if _is_lambda(target) else [("server", False)]),
        *([] if container else [("infra", _is_lambda(target))]),
    ]
    found = []
    for extra, needed in wanted:
        lacking = [name for name in advice.packages(extra) if not advice.installed(name)]
        detail = f"{EXTRAS[extra]}: {'needs ' + ', '.join(lacking) if lacking else 'installed'}"
        found.append(
            Finding(f"{extra} extra", _absent(needed) if lacking else "ok", detail, advice.pip(advice.own(extra)) if lacking else "")
        )
    return found


def uv(_: Target | None) -> list[Finding]:
    """The uv of this environment, which installs the wheels of other machines."""
    try:
        binary = wheels.uv_binary()
    except (UnsupportedError, FileNotFoundError):
        return [Finding("uv", "missing", "installs the wheels of a bundle; not in this environment", advice.pip("uv"))]
    return [Finding("uv", "ok", f"{advice.said(binary, '--version').partition(' (')[0]}, to install a bundle's wheels")]


def bytecode_python(target: Target | None) -> list[Finding]:
    """A Python of the minor version that a function has. Without one a bundle is whole, but starts slower."""
    chosen = [target] if target else [targets.load(name) for name in targets.names()]
    found = []
    for minor in sorted({each.python for each in chosen if each.python}):
        there = interpreters.find(minor)
        if there:
            found.append(Finding(f"Python {minor}", "ok", f"compiles bundles for Lambda: {advice.short(there.path)}"))
            continue
        words = "not here: bundles for Lambda ship no bytecode, and every cold start compiles anew"
        found.append(Finding(f"Python {minor}", "warning", words, advice.ways_to_python(minor)))
    return found


def cache_folder(_: Target | None) -> list[Finding]:
    """Where exports, environments and layers are kept; really written to, as root may write where a disk is read-only."""
    try:
        home = cache.root()
        with tempfile.TemporaryFile(dir=home):
            free = shutil.disk_usage(home).free
    except OSError as error:
        return [Finding("cache folder", "missing", f"cannot be written: {edge.refusal(error)}", "export XDG_CACHE_HOME=/a/folder/of/yours")]
    return [Finding("cache folder", "ok", f"{advice.short(home)}, {free / 1e9:.1f} GB free")]


def export_environment(_: Target | None) -> list[Finding]:
    """Where torch and transformers are: there, named by the user, or room for it."""
    name = "export environment"
    if given := os.environ.get(environment.PYTHON):
        return [_given_environment(name, given)]
    home = environment.home()
    if home.exists() and not (home / "bin" / "python").exists():  # a link into an installation that has been removed
        return [Finding(name, "missing", f"the Python of {advice.short(home)} is gone", "hotfoot cache --clear environments")]
    if home.exists():
        return [Finding(name, "ok", f"{cache.size(home) / 1e9:.1f} GB in {advice.short(home)}")]
    free = shutil.disk_usage(home.parent).free
    room = f"{EXPORT_BYTES / 1e9:.1f} GB are needed and {free / 1e9:.1f} GB free"
    if free < EXPORT_BYTES:
        return [Finding(name, "missing", f"not made yet: {room}", "export XDG_CACHE_HOME=/a/folder/on/a/larger/disk")]
    return [Finding(name, "ok", f"made on the first build: {room}")]


def _given_environment(name: str, given: str) -> Finding:
    ask = "import importlib.util as u; print(*[n for n in ('torch', 'transformers', 'optimum') if u.find_spec(n) is None])"
    try:
        lacking = advice.said(given, "-I", "-c", ask)
    except (OSError, subprocess.SubprocessError) as error:
        return Finding(
            name, "missing", f"{environment.PYTHON}={given} cannot be run ({type(error).__name__})", f"unset {environment.PYTHON}"
        )
    if lacking:
        lists = f"-c {environment.LOCK} -r {environment.WANTED}"
        return Finding(name, "missing", f"{environment.PYTHON}={given} lacks {lacking}", f"{shlex.quote(given)} -m pip install {lists}")
    return Finding(name, "ok", f"{environment.PYTHON}={given}")


def machine(target: Target | None) -> list[Finding]:
    """What `local` means here, and for which targets this machine's times count."""
    from hotfoot_build.search.recipes import times_here

    here = f"{targets.machine_arch()} with {', '.join(sorted(targets.cpu_features())) or 'no CPU feature that targets speak of'}"
    if target:
        timed = "timed here, too" if times_here(target) else f"built and proven, not timed, on this machine ({here})"
        return [Finding("target", "ok", f"{target.name}, {target.summary}: {timed}")]
    try:
        local = Finding("local target", "ok", f"{targets.local().name} ({here})")
    except UnsupportedError as error:
        local = Finding("local target", "missing", error.message, "hotfoot build MODEL --task TASK --target lambda-arm64")
    split: dict[bool, list[str]] = {True: [], False: []}
    for name in targets.names():
        split[times_here(targets.load(name))].append(name)
    words = f"timed here: {', '.join(split[True]) or 'none'}; built and proven, not timed: {', '.join(split[False]) or 'none'}"
    return [local, Finding("targets", "ok", words)]


def onnx_runtime(_: Target | None) -> list[Finding]:
    """What runs the artifacts, and whether it is kept from reporting."""
    name = next((each for each in ("onnxruntime", "onnxruntime-gpu") if advice.installed(each)), None)
    if name is None:
        return [Finding("ONNX Runtime", "missing", "runs every artifact; not in this environment", advice.pip("onnxruntime"))]
    quiet = os.environ.get("ORT_DISABLE_TELEMETRY") == "1"  # hotfoot says so unless the user has said otherwise
    words = f"{name} {metadata.version(name)}, telemetry {'off' if quiet else 'on'}"
    return [Finding("ONNX Runtime", "ok" if quiet else "warning", words, "" if quiet else "export ORT_DISABLE_TELEMETRY=1")]


def threads(_: Target | None) -> list[Finding]:
    """What a model may run on here: the affinity's and the control group's share of the cores."""
    return [Finding("threads", "ok", f"{settings.usable_threads(None)} for a model, of {os.cpu_count() or 1} cores")]


def node(target: Target | None) -> list[Finding]:
    """Which the CDK's library and its command both run on."""
    fix = f"nvm install {NODE}  # or from https://nodejs.org"
    binary = shutil.which("node")
    if binary is None:
        return [Finding("node", _absent(_is_lambda(target)), f"the CDK needs it, {NODE} or newer; not on PATH", fix)]
    version = advice.said(binary, "--version")
    number = re.match(r"v(\d+)\.", version)
    major = int(number[1]) if number else 0
    if major >= NODE:
        return [Finding("node", "ok", f"{version}, for the CDK")]
    if major >= OLDEST_NODE:
        return [Finding("node", "warning", f"{version}: the CDK asks for {NODE} or newer; it still runs", fix)]
    return [Finding("node", _absent(_is_lambda(target)), f"{version}: the CDK needs {NODE} or newer", fix)]


def cdk(target: Target | None) -> list[Finding]:
    """The command that deploys: installed, or fetched when it is called."""
    if binary := shutil.which("cdk"):
        return [Finding("cdk", "ok", f"{advice.short(Path(binary))}, to deploy")]
    if shutil.which("npx"):
        return [Finding("cdk", "ok", "npx aws-cdk fetches it when it is called")]
    fix = "npm install --global aws-cdk" if shutil.which("npm") else f"nvm install {NODE}  # npx comes with it"
    return [Finding("cdk", _absent(_is_lambda(target)), "deploys; neither cdk nor npx is on PATH", fix)]


def docker(_: Target | None) -> list[Finding]:
    """What makes an image of a bundle that is to be one; the CDK lets a variable name another. Nobody else needs it."""
    name = os.environ.get("CDK_DOCKER") or "docker"
    if binary := shutil.which(name):
        return [Finding("docker", "ok", f"{advice.short(Path(binary))}, for bundles that become images")]
    words = f"{name} is not on PATH; it is needed only where a bundle becomes an image"
    return [Finding("docker", "warning", words, "export CDK_DOCKER=podman  # for cdk deploy; or from https://docs.docker.com/get-docker")]


def aws(_: Target | None) -> list[Finding]:
    """Credentials and region, as far as files and variables say. A warning where they lack: the CDK may know of others."""
    try:
        seen = aws_profile.look()
    except ModuleNotFoundError:
        words = "not looked for, and requests cannot be signed: botocore is not installed"
        return [Finding("AWS credentials", "warning", words, advice.pip("botocore"))]
    credentials = Finding("AWS credentials", "ok", f"{seen.credentials}, not tried")
    if seen.credentials is None:
        credentials = Finding("AWS credentials", "warning", f"{seen.lack}; deploying and signing need some", "aws configure sso")
    if seen.region:
        return [credentials, Finding("AWS region", "ok", seen.region)]
    return [credentials, Finding("AWS region", "warning", "none is set: where should it be deployed?", "export AWS_REGION=eu-west-1")]


def hub_token(_: Target | None) -> list[Finding]:
    """Said, never shown."""
    there = bool(os.environ.get("HF_TOKEN"))
    return [Finding("HF_TOKEN", "ok", "set" if there else "not set; only gated and private models need it")]


def variables(_: Target | None) -> list[Finding]:
    """What the environment says to hotfoot: values that cannot be secret, names that nothing reads, and what cannot be read."""
    own = sorted(name for name in os.environ if name.startswith("HOTFOOT_"))
    said = [f"{name}={os.environ[name]}" if name in SHOWN else f"{name} (not shown)" for name in own if name in SHOWN | HIDDEN]
    found = [Finding("HOTFOOT_*", "ok", ", ".join(said) or "none is set")]
    if unknown := [name for name in own if name not in SHOWN | HIDDEN]:
        found.append(Finding("HOTFOOT_*", "warning", f"nothing reads {', '.join(unknown)}", f"unset {' '.join(unknown)}"))
    for read in (settings.read, settings.read_bulk):
        try:
            read(os.environ)
        except HotfootError as error:
            named = [name for name in re.findall(r"HOTFOOT_[A-Z_]*[A-Z]", error.message) if name in os.environ]
            found.append(Finding("HOTFOOT_*", "warning", str(error), f"unset {named[0]}" if named else ""))
    return found


def checkout(_: Target | None) -> list[Finding]:
    """What `scripts/test --all` wants, where there is one."""
    if not advice.is_checkout():
        return []
    use = "for scripts/test --all"
    found = []
    for name, binaries, fix in (
        ("Chromium", BROWSERS, "sudo apt-get install chromium"),
        ("qemu", QEMU, "sudo apt-get install qemu-user-static"),
        ("buildah", ("buildah",), "sudo apt-get install buildah"),
    ):
        there = next((path for each in binaries if (path := shutil.which(each))), None)
        found.append(Finding(name, "ok", f"{there}, {use}") if there else Finding(name, "warning", f"not on PATH; {use}", fix))
    root = os.geteuid() == 0
    return [
        *found,
        Finding("root", "ok" if root else "warning", f"{'yes' if root else 'no'}, {use}", "" if root else "sudo -E scripts/test --all"),
    ]


def _is_lambda(target: Target | None) -> bool:
    return target is not None and target.system == "lambda"


def _absent(needed: bool) -> Status:
    return "missing" if needed else "warning"


# in this order; those of the second and third kind are for no target or one on Lambda, and for no target
ALWAYS: tuple[Check, ...] = (this_python, extras, onnx_runtime, machine, cache_folder, export_environment, uv, docker)
LAMBDA: tuple[Check, ...] = (bytecode_python, node, cdk, aws)
ALONE: tuple[Check, ...] = (threads, hub_token, variables, checkout)


def checks(target: Target | None) -> tuple[Check, ...]:
    """What is looked at: everything, or what has to do with one target."""
    return ALWAYS + (LAMBDA if target is None or _is_lambda(target) else ()) + (ALONE if target is None else ())
