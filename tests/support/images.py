"""Container images without Docker: buildah builds a bundle's Dockerfile, and stand-ins for the base images that it names. Needs root.

A stand-in has the base's full name and what Docker's users know of it: where Python and the runtime client lie, its variables, how it
starts. It is Debian's Python; for AWS's base with AWS's own client and emulator, for Python's image as Debian as that one is. Not here:
what else is in the real ones.
"""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hotfoot.contract.target import Arch
from hotfoot_build import cache
from hotfoot_build.package import aws_parts, bytecode, interpreters
from support import debian, lambda_box
from support.debian import PYTHON

# libstdc++: in Debian's images for apt, in AWS's for dnf, and without it no numpy; passwd.master is of base-passwd
PACKAGES = (f"python{PYTHON}", "libstdc++6", "dash", "base-passwd")
FORMAT = "1"  # of the cached root: another one where it is made in another way
LAMBDA, SLIM = f"public.ecr.aws/lambda/python:{PYTHON}", f"docker.io/library/python:{PYTHON}-slim"
PLATFORMS: dict[Arch, str] = {"arm64": "linux/arm64", "x86_64": "linux/amd64"}

ENTRY = """#!/bin/sh
# as AWS's: the handler is the argument, and without Lambda around it the emulator is started first
[ $# -eq 1 ] || exit 142
export _HANDLER="$1"
[ -n "$AWS_LAMBDA_RUNTIME_API" ] && exec /var/runtime/bootstrap
exec /usr/local/bin/aws-lambda-rie /var/runtime/bootstrap
"""
BOOTSTRAP = f"""#!/bin/sh
export AWS_EXECUTION_ENV=AWS_Lambda_python{PYTHON}
exec /var/lang/bin/python{PYTHON} /var/runtime/bootstrap.py
"""
# where AWS's looks for modules: the layers' folders come before its own, but not where PYTHONPATH is set
BOOTSTRAP_PY = f"""
import os, site, sys
import awslambdaric.__main__ as client

code, layers = os.environ["LAMBDA_TASK_ROOT"], ["/opt/python/lib/python{PYTHON}/site-packages", "/opt/python"]
chosen = "PYTHONPATH" in os.environ
sys.path[:0] = [code] if chosen else [code, *layers, "/var/lang/lib/python{PYTHON}/site-packages"]
for folder in [code] if chosen else [code, *layers]:
    site.addsitedir(folder)
if not chosen:
    os.environ["PYTHONPATH"] = os.environ["LAMBDA_RUNTIME_DIR"]
client.main([code, os.environ["_HANDLER"]])
"""
LAMBDA_BASE = """
FROM scratch
COPY root/ /
ENV LANG=en_US.UTF-8 TZ=:/etc/localtime PATH=/var/lang/bin:/usr/local/bin:/usr/bin/:/bin:/opt/bin
ENV LD_LIBRARY_PATH=/var/lang/lib:/lib64:/usr/lib64:/var/runtime:/var/runtime/lib:/var/task:/var/task/lib:/opt/lib
ENV LAMBDA_TASK_ROOT=/var/task LAMBDA_RUNTIME_DIR=/var/runtime
WORKDIR /var/task
ENTRYPOINT ["/lambda-entrypoint.sh"]
"""
SLIM_BASE = """
FROM scratch
COPY root/ /
ENV PATH=/usr/local/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8
CMD ["python3"]
"""


def faults() -> list[str]:
    """Why this machine cannot build and run images, each with what to do about it; empty where it can."""
    found = lambda_box.faults()
    missing = [*([] if shutil.which("buildah") else ["buildah"]), *debian.missing()]
    if missing:
        found.append(f"images are built without Docker, on Debian's packages: run `apt-get install {' '.join(missing)}`.")
    if interpreters.find(PYTHON) is None:
        found.append(f"no Python {PYTHON} on this machine, to compile the images' modules with: run `uv python install {PYTHON}`.")
    return found


@dataclass(frozen=True)
class Image:
    """A built image: its id, its configuration as the OCI's image specification has it, and its manifest."""

    id: str
    architecture: str
    config: Mapping[str, Any]
    layers: tuple[str, ...]
    manifest: Mapping[str, Any]

    @property
    def environment(self) -> dict[str, str]:
        """Its variables."""
        return dict(variable.split("=", 1) for variable in self.config.get("Env", ()))


class Store:
    """Images in a folder of their own, by their full names: nothing is ever pulled."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._buildah = ["buildah", "--storage-driver", "vfs", "--root", str(folder / "root"), "--runroot", str(folder / "run")]

    def run(self, *arguments: str) -> str:
        """Run buildah; gives what it printed, and fails with that where it failed."""
        done = subprocess.run([*self._buildah, *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"buildah {' '.join(arguments)}\n{done.stdout[-2000:]}{done.stderr[-3000:]}"
        return done.stdout.strip()

    def build(self, context: Path, name: str, *options: str) -> Image:
        """The image that the folder's Dockerfile makes."""
        self.run("bud", "--isolation", "chroot", "--pull-never", *options, "--tag", name, str(context))
        return self.image(name)

    def image(self, name: str) -> Image:
        """What there is of that name."""
        found = json.loads(self.run("inspect", "--type", "image", name))
        made, manifest = found["OCIv1"], json.loads(found["Manifest"])
        return Image(found["FromImageID"], made["architecture"], made["config"], tuple(made["rootfs"]["diff_ids"]), manifest)

    @contextmanager
    def unpacked(self, name: str) -> Iterator[Path]:
        """The root directory of a container of the image, which may be written to without changing the image."""
        container = self.run("from", "--pull-never", name)
        try:
            yield Path(self.run("mount", container))
        finally:
            self.run("rm", container)

    def remove(self) -> None:
        """Take all of it off the disk."""
        shutil.rmtree(self._folder)

    @property
    def calls(self) -> list[str]:
        """What was asked of `docker`, a line each, and what BuildKit was told to attest."""
        log = self._folder / "docker.log"
        return log.read_text(encoding="utf-8").splitlines() if log.exists() else []

    @property
    def pushed(self) -> list[Path]:
        """The OCI archives that it was asked to push."""
        return sorted((self._folder / "pushed").iterdir())

    def push(self, name: str, archive: Path) -> None:
        """Write the image to an OCI archive, as a registry would hold it."""
        self.run("push", name, f"oci-archive:{archive}")

    def docker(self) -> Path:
        """A program that understands what the CDK asks of Docker: see `calls` and `pushed`."""
        program, pushed = self._folder / "docker", self._folder / "pushed"
        pushed.mkdir(parents=True, exist_ok=True)
        program.write_text(
            DOCKER.format(buildah=shlex.join(self._buildah), pushed=pushed, log=self._folder / "docker.log"), encoding="utf-8"
        )
        program.chmod(0o755)
        return program


DOCKER = """#!/usr/bin/env bash
set -eu
buildah=({buildah})
echo "$* attestations=${{BUILDX_NO_DEFAULT_ATTESTATIONS:-default}}" >>{log}
case $1 in
  login) cat >/dev/null ;;
  inspect) "${{buildah[@]}}" inspect --type image "$2" >/dev/null 2>&1 ;;
  build) shift; exec "${{buildah[@]}}" bud --isolation chroot --pull-never "$@" ;;
  tag) "${{buildah[@]}}" tag "$2" "$3" ;;
  push) name=${{!#}}; "${{buildah[@]}}" push "$name" "oci-archive:{pushed}/$(echo "$name" | tr '/:' '__').tar" ;;
  *) echo "not understood: $*" >&2; exit 1 ;;
esac
"""


def lambda_base(store: Store, scratch: Path, arch: Arch) -> Image:
    """AWS's base image for Lambda's Python, stood in for; `scratch` is an empty folder to make it in."""
    root = _system(scratch, arch)
    interpreter = interpreters.find(PYTHON)
    assert interpreter, "see faults()"
    (root / "var" / "lang").symlink_to("/usr")  # of the folder, so that Python takes it for its prefix
    runtime = root / "var" / "runtime"
    shutil.copytree(aws_parts.interface_client(arch, interpreter), runtime)
    (root / "usr" / "local" / "bin").mkdir(parents=True)
    shutil.copy(aws_parts.emulator_binary(arch), root / "usr" / "local" / "bin" / "aws-lambda-rie")
    (runtime / "bootstrap.py").write_text(BOOTSTRAP_PY, encoding="utf-8")
    for path, script in ((root / "lambda-entrypoint.sh", ENTRY), (runtime / "bootstrap", BOOTSTRAP)):
        path.write_text(script, encoding="utf-8")
        path.chmod(0o755)
    return _base(store, scratch, LAMBDA_BASE, LAMBDA, arch)


def slim_base(store: Store, scratch: Path, arch: Arch) -> Image:
    """Python's own image on Debian, stood in for."""
    root = _system(scratch, arch)
    (root / "usr" / "local").symlink_to(".")  # Python's prefix there
    (root / "usr" / "bin" / "python").symlink_to(f"python{PYTHON}")
    return _base(store, scratch, SLIM_BASE, SLIM, arch)


def empty_base(store: Store, scratch: Path, name: str, arch: Arch) -> Image:
    """An image of that name for another CPU, to build upon and not to run."""
    (scratch / "root" / "etc").mkdir(parents=True)
    return _base(store, scratch, "FROM scratch\nCOPY root/ /\n", name, arch)


def _base(store: Store, scratch: Path, dockerfile: str, name: str, arch: Arch) -> Image:
    (scratch / "Dockerfile").write_text(dockerfile, encoding="utf-8")
    made = store.build(scratch, name, "--platform", PLATFORMS[arch], "--timestamp", "0")
    shutil.rmtree(scratch / "root")
    return made


def _system(scratch: Path, arch: Arch) -> Path:
    """A copy of a root with Python, its library compiled, and Debian's users."""
    interpreter = interpreters.find(PYTHON)
    assert interpreter, "see faults()"

    def make(root: Path) -> None:
        debian.unpack(root, arch, PACKAGES)
        library = f"usr/lib/python{PYTHON}"
        bytecode.compile_tree(root / library, interpreter, shown_as=f"/{library}")
        for name in ("passwd", "group"):
            shutil.copy(root / "usr" / "share" / "base-passwd" / f"{name}.master", root / "etc" / name)

    place = cache.root() / "test-roots" / f"{debian.SUITE}-image-{arch}-{cache.key(FORMAT, *PACKAGES, interpreter.version)}"
    return Path(shutil.copytree(cache.made_once(place, make), scratch / "root", symlinks=True))


def listing(root: Path, *folders: str) -> dict[str, tuple[str, int, int, int]]:
    """What lies in these folders of a root: kind, mode, owner and group, by path."""
    found = {}
    for folder in folders:
        for path in [root / folder, *(root / folder).rglob("*")]:
            said = path.lstat()
            kind = "link" if path.is_symlink() else "folder" if path.is_dir() else "file"
            found[path.relative_to(root).as_posix()] = (kind, said.st_mode & 0o7777, said.st_uid, said.st_gid)
    return found


def command_of(image: Image, command: Sequence[str] | None = None) -> list[str]:
    """What a container of the image starts, `command` instead of its own where given."""
    return [*(image.config.get("Entrypoint") or ()), *(command if command is not None else image.config.get("Cmd") or ())]
