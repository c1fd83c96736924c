"""`python -m nightly.audit`: known vulnerabilities of what is locked, by pip-audit where it has its data.

pip-audit ends well, and says that nothing was found, where its service knows none of the packages: behind a mirror that
has files and no such data. Here that counts as not audited. ROLLCALL_REQUIRE_AUDIT=1 makes it a failure.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parents[1]
LOCKS = ("requirements.lock", "requirements-build.lock")
_LIMIT_S = 300


def main() -> int:
    """1 where something is known, or nothing can be known and has to be."""
    argparse.ArgumentParser(prog="nightly.audit", description="Known vulnerabilities of what is locked.").parse_args()
    reports = [_report(PROJECT / name) for name in LOCKS]
    found = [package for report in reports for package in report.get("dependencies", ())]
    reasons = [report["reason"] for report in reports if "reason" in report]
    lines, bad, unknown = verdict(found, reasons)
    print("\n".join(f"audit: {line}" for line in lines))
    return int(bad or (unknown and os.environ.get("ROLLCALL_REQUIRE_AUDIT") == "1"))


def verdict(packages: Sequence[Mapping[str, Any]], reasons: Sequence[str]) -> tuple[list[str], bool, bool]:
    """(what there is to say, whether something is vulnerable, whether something could not be known)"""
    audited = [package for package in packages if "vulns" in package]
    skipped = len(packages) - len(audited)
    lines = [
        f"{package['name']} {package['version']}: {each['id']}; mended in {', '.join(each['fix_versions']) or 'none'}"
        for package in audited
        for each in package["vulns"]
    ]
    bad = bool(lines)
    if audited and not bad:
        lines.append(f"no vulnerability of {len(audited)} locked packages is known")
    if skipped:
        lines.append(f"{skipped} of {len(packages)} locked packages NOT AUDITED: the data on them cannot be had here")
    lines += [f"NOT AUDITED: {reason}" for reason in reasons]
    return lines, bad, bool(skipped or reasons)


def _report(lock: Path) -> dict[str, Any]:
    """pip-audit's own, or why there is none."""
    with tempfile.TemporaryDirectory() as folder:
        told = Path(folder) / "report.json"
        uv = str(Path(sys.executable).parent / "uv")
        command = [uv, "tool", "run", "--quiet", "pip-audit", "--disable-pip", "--require-hashes"]
        command += ["--requirement", str(lock), "--format", "json", "--output", str(told), "--progress-spinner", "off"]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=_LIMIT_S, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            return {"reason": f"{lock.name}: pip-audit cannot be run: {error}"}
        if not told.exists():
            last = (done.stderr.strip().splitlines() or ["it says nothing"])[-1]
            return {"reason": f"{lock.name}: pip-audit cannot tell: {last}"}
        report: dict[str, Any] = json.loads(told.read_text())
        return report


if __name__ == "__main__":
    sys.exit(main())
