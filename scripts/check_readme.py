"""Runs the commands of a page as they stand there.

Every block of ```sh must say in a comment before it what is to happen:

    <!-- check: run -->                                   run each line
    <!-- check: run with ARGS=... expecting ... -->       with small arguments; the output
                                                          must hold the text
    <!-- check: caller -->                                the command that calls this check:
                                                          only see that make knows it

Every block of ```go must build and every block of ```python must compile.
"""

import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BLOCK = re.compile(
    r"(?:<!-- check: (?P<how>.*?) -->\n+)?^```(?P<kind>\w+)\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
HOW = re.compile(r"run(?: with ARGS=(?P<args>.*?))?(?: expecting (?P<expect>.*))?$")
SECONDS_MAX = 900


def fail(what):
    sys.exit(f"check-readme: {what}")


def run(command, args="", expect=None):
    print(f"$ {command}" + (f"    (ARGS={args})" if args else ""), flush=True)
    process = subprocess.Popen(
        ["bash", "-euo", "pipefail", "-c", command],
        cwd=ROOT,
        env=os.environ | {"ARGS": args},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    late = threading.Timer(SECONDS_MAX, os.killpg, (process.pid, signal.SIGKILL))
    late.start()
    output = []
    for line in process.stdout:
        print("  " + line, end="", flush=True)
        output.append(line)
    code = process.wait()
    late.cancel()
    if code:
        fail(f"`{command}` ended with code {code}")
    if expect and not any(expect in line for line in output):
        fail(f"`{command}` did not print {expect}")


def check_sh(text, how):
    commands = [line.split("#")[0].strip() for line in text.splitlines()]
    commands = [command for command in commands if command]
    if how == "caller":
        for command in commands:
            run(command.replace("make ", "make -n ", 1) + " > /dev/null")
        return len(commands)
    match = HOW.match(how or "")
    if not match:
        fail(f"say how the block with `{commands[0]}` is checked")
    for command in commands:
        run(command, match["args"] or "", match["expect"])
    return len(commands)


def check_go(text, _):
    (ROOT / "build").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=ROOT / "build") as folder:
        Path(folder, "main.go").write_text(text)
        run(f"go vet ./{Path(folder).relative_to(ROOT)}")
    return 1


def check_python(text, _):
    compile(text, "README.md", "exec")
    return 1


CHECKS = {"sh": check_sh, "go": check_go, "python": check_python}


def main(page):
    checked = 0
    for block in BLOCK.finditer((ROOT / page).read_text()):
        if check := CHECKS.get(block["kind"]):
            checked += check(block["text"], block["how"])
    if not checked:
        fail(f"{page} has no command")
    print(f"check-readme: {checked} commands and programs of {page} work as written")


if __name__ == "__main__":
    main(*sys.argv[1:])
