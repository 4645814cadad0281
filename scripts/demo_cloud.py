"""The demo's second half: `cdk deploy` into an AWS account that is emulated on this machine, and five letters through its bucket.

The letters are invented. What comes out has marks in the place of names, addresses and numbers.
"""

from __future__ import annotations

import json
import platform
import tempfile
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from hotfoot.contract.project import FILE
from hotfoot.targets import machine_arch
from hotfoot_build.init_command import init
from hotfoot_build.package.bundle import bundle
from hotfoot_build.pipeline import BuildRequest, build
from hotfoot_build.progress import Progress, size
from models import prepare
from support.cloud.account import ACCOUNT, REGION, Account, cdk_command, missing_node
from support.cloud.deployed import Queue, Stack

ROOT = Path(__file__).resolve().parent.parent
ARTIFACTS = ROOT / "artifacts"
LETTERS = ROOT / "tests" / "fixtures" / "letters"
STACK = "hotfoot-pii"
TOML = """\
[deploy.pii]
bundle = "{bundle}"
auth = "none"
removal = "destroy"

[deploy.pii.bulk]
input_prefix = "in/"
input_suffixes = [".txt"]
results_prefix = "masked"
mask = true
parameters = {{ aggregation_strategy = "first" }}
"""

console = Console()


def main() -> None:
    console.rule("[bold]Letters into a bucket, masked letters out[/bold]")
    if lack := missing_node():
        console.print(f"SKIPPED: {lack}. Everything before this line ran.", style="bold yellow")
        return
    progress, start = Progress(console), time.perf_counter()
    folder = package(progress)
    with tempfile.TemporaryDirectory(prefix="hotfoot-demo-") as home, Account(Path(home)) as account:
        stack = deploy(account, Path(home) / "project", folder, progress)
        outputs, s3 = stack.outputs, account.client("s3")
        for letter in sorted(LETTERS.glob("*.txt")):
            s3.put_object(Bucket=outputs["InputBucket"], Key=f"in/{letter.name}", Body=letter.read_bytes())
        with progress.step("bulk") as step:
            queue = Queue(account, outputs["QueueUrl"])
            messages = queue.take()
            with stack.run(outputs["BulkFunctionName"], Path(home) / "function") as function:
                failed = queue.deliver(messages, function)
            step.result = f"{len(messages)} messages, {len(failed)} failed"
        reports = show(s3, outputs["ResultsBucket"])
    if failed or len(reports) != len(messages):
        raise SystemExit(f"{len(messages)} letters gave {len(reports)} reports, {len(failed)} messages failed")
    record({"seconds": round(time.perf_counter() - start, 1), "steps": progress.seconds, "reports": reports})
    console.print("All of it ran here: the account is emulated, the templates, packages, function code and model are what AWS would get.")


def package(progress: Progress) -> Path:
    """A bundle of the pii model for Lambda on this machine's processor, for the Python that runs this."""
    source, target = prepare("pii", ARTIFACTS / "models"), f"lambda-{machine_arch()}"
    request = BuildRequest(str(source), "token-classification", target, out=ARTIFACTS / f"pii-{target}", name="rampart-pii")
    console.print(f"Building pii for {target}", highlight=False)
    built = build(request, progress)
    folder = ARTIFACTS / "bundles" / f"pii-{target}"
    with progress.step("bundle") as step:
        # the function has to run here, so it gets the Python that is here
        made = bundle(built.path, folder, progress=step, python=".".join(platform.python_version_tuple()[:2]))
        step.result = f"{size(made.unzipped_bytes)} unzipped"
    return folder


def deploy(account: Account, project: Path, bundled: Path, progress: Progress) -> Stack:
    """What a user does: hotfoot init, hotfoot.toml, cdk synth, bootstrap, deploy."""
    init(project)
    (project / FILE).write_text(TOML.format(bundle=bundled), encoding="utf-8")
    with progress.step("cdk") as step:
        step("installing the pinned cdk command, once")
        cdk_command()
        for arguments in (
            ("synth", "--quiet"),
            ("bootstrap", f"aws://{ACCOUNT}/{REGION}", "--app", "cdk.out"),
            ("deploy", STACK, "--require-approval", "never", "--app", "cdk.out"),
        ):
            step(f"cdk {arguments[0]}")
            account.cdk(project, *arguments)
        stack = Stack(account, STACK)
        step.result = f"synth, bootstrap, deploy: {len(stack.resources())} resources"
    return stack


def show(s3: Any, bucket: str) -> list[dict[str, Any]]:
    """The first lines of each masked letter, and the report of each."""
    reports, grid = [], Table("letter", "masked")
    listed = s3.list_objects_v2(Bucket=bucket)["Contents"]
    for key in (item["Key"] for item in listed if item["Key"].endswith("/_report.json")):
        report = json.loads(s3.get_object(Bucket=bucket, Key=key)["Body"].read())
        reports.append(report)
        part = s3.get_object(Bucket=bucket, Key=key.replace("_report.json", "part-00000.jsonl"))["Body"].read().decode()
        lines = [json.loads(line)["text"] for line in part.splitlines()]
        grid.add_row(key.split("/in/")[1].split("/")[0], "\n".join(lines))
    console.print(grid)
    if reports:
        console.print("One of the reports, written last, as the mark that a letter is done:")
        console.print_json(data=reports[0])
    return reports


def record(cloud: dict[str, Any]) -> None:
    """Add this half to artifacts/demo.json."""
    path = ARTIFACTS / "demo.json"
    found = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    path.write_text(json.dumps({**found, "cloud": cloud}, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
