"""Look for known weaknesses of every locked package, and say how many of them could be looked up.

    python .ci/audit_deps.py PIP_AUDIT

pip-audit itself calls a package that no database knows "skipped", and ends well.
"""

import json
import subprocess
import sys
from pathlib import Path

LOCKS = ("requirements.lock", "requirements-torch.lock")


def asked(program: str, *words: str) -> list[dict]:
    """What pip-audit says of each package; nothing where it reaches no database."""
    files = [word for name in LOCKS for word in ("-r", name)]
    command = [program, "--no-deps", "--disable-pip", "--progress-spinner", "off", "-f", "json", *words, *files]
    done = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parents[1], check=False)  # noqa: S603
    try:
        return json.loads(done.stdout)["dependencies"]
    except ValueError:
        return []


def main() -> int:
    """Print the findings; 1 where there are any."""
    program = str(Path(sys.argv[1]).resolve())
    for database in ((), ("-s", "osv")):
        packages = asked(program, *database)
        looked_up = [one for one in packages if "skip_reason" not in one]
        if looked_up:
            break
    else:
        print("No advisory database can be reached from here: nothing was audited.")
        return 0
    weak = [(one, found) for one in looked_up for found in one["vulns"]]
    for one, found in weak:
        mended = ", ".join(found.get("fix_versions", [])) or "no version"
        print(f"{one['name']} {one['version']}: {found['id']}, mended in {mended}")
    print(f"{len(looked_up)} of {len(packages)} packages were looked up: {len(weak)} known weaknesses.")
    return int(bool(weak))


if __name__ == "__main__":
    sys.exit(main())
