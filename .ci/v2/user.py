"""Checks what an ordinary user can do, with a group delegated as systemd does for `Delegate=yes`, and without.

Usage: user.py REPOSITORY BUILT [SDK-PYTHON]. Runs as root, which makes the group; all that is tested runs as the user.
What only root can have must be refused in words that say so, and a limit that does not hold must be told.
"""

import os
import pathlib
import re
import subprocess
import sys
import time

REPOSITORY, BUILT = map(pathlib.Path, sys.argv[1:3])
SDK = sys.argv[3] if len(sys.argv) > 3 else None
ROOT = pathlib.Path("/sys/fs/cgroup")
USER = 1001
HOME = pathlib.Path("/home/worker")
RUNTIME = pathlib.Path(f"/run/user/{USER}")
SLICE = ROOT / "user.slice" / f"user-{USER}.slice"
UNIT = SLICE / "belljar.service"
PATIENCE = 240
# The whole conformance of a tier, on an emulated processor that is shared.
LONGEST = 3000
# What systemd gives away: cgroups(7), "Cgroup delegation".
GIVEN = ("", "cgroup.procs", "cgroup.subtree_control", "cgroup.threads")
# Limits are watched and not capped, and that is told.
WATCHED = "without cgroups, memory, processes and CPU time are watched"


def prepare():
    """Makes what a login would make: a home, a folder for sockets, a slice with all controllers."""
    for folder in (RUNTIME, HOME):
        folder.mkdir(parents=True, exist_ok=True)
        os.chown(folder, USER, USER)
    SLICE.mkdir(parents=True, exist_ok=True)
    for group in (SLICE.parent, SLICE):
        names = (group / "cgroup.controllers").read_text().split()
        (group / "cgroup.subtree_control").write_text(" ".join(f"+{name}" for name in names))
    # The user's suites append to it, too.
    log = pathlib.Path(os.environ["BELLJAR_CASE_LOG"])
    log.touch()
    os.chown(log, USER, USER)
    # A template that this user built would belong to this user.
    subprocess.run(["chown", "-R", f"{USER}:{USER}", os.environ["BELLJAR_STORE"]], check=True)


def start_unit(delegated):
    UNIT.mkdir()
    if delegated:
        os.setxattr(UNIT, "user.delegate", b"1")
        for name in GIVEN:
            os.chown(UNIT / name, USER, USER)


def stop_unit():
    """Removes the unit's groups, as systemd does, and returns those that should not have been left."""
    for _ in range(20):
        groups = sorted((path for path in UNIT.rglob("*") if path.is_dir()), reverse=True)
        left = [str(path.relative_to(UNIT)) for path in groups if path.name != "supervisor"]
        if not left:
            break
        # The spawner removes the last group of an engine a moment after the engine has ended.
        time.sleep(0.5)
    (UNIT / "cgroup.kill").write_text("1")
    for path in [*groups, UNIT]:
        path.rmdir()
    return left


def enter():
    (UNIT / "cgroup.procs").write_text("0")
    os.setgroups([])
    os.setgid(USER)
    os.setuid(USER)


def run(command, delegated=True, timeout=PATIENCE, **options):
    """Runs a command as the user in a unit of its own; returns its status and what it said, and groups it left."""
    start_unit(delegated)
    environment = {**os.environ, "HOME": str(HOME), "USER": "worker", "XDG_RUNTIME_DIR": str(RUNTIME)}
    try:
        done = subprocess.run(
            [str(part) for part in command], preexec_fn=enter, env=environment, cwd=HOME, timeout=timeout, text=True,
            stderr=subprocess.STDOUT, **options,
        )  # fmt: skip
        return done.returncode, done.stdout or "", stop_unit()
    except subprocess.TimeoutExpired as late:
        return None, f"not over after {timeout} s: {late.stdout}", stop_unit()


def check(name, command, status=0, words=(), never=(), delegated=True):
    """Runs a command whose status and words are known; `status` may be any that is not 0."""
    code, said, left = run(command, delegated, stdout=subprocess.PIPE)
    wrong = [] if (code == status if status is not None else code) else [f"status {code}"]
    wrong += [f"it does not say {word!r}" for word in words if not re.search(word, said, re.MULTILINE)]
    wrong += [f"it says {word!r}" for word in never if re.search(word, said, re.MULTILINE)]
    wrong += [f"left: {left}"] if left else []
    print(f"FAIL {name}: {'; '.join(wrong)}\n{said}" if wrong else f"ok   {name}", flush=True)


def suite(name, command, delegated=True):
    """Runs a program that counts its cases itself."""
    code, said, left = run(command, delegated, timeout=LONGEST)
    # A suite that did not end has no status.
    wrong = ([f"status {code} {said}"] if code != 0 else []) + ([f"left: {left}"] if left else [])
    print(f"FAIL {name}: {'; '.join(wrong)}" if wrong else f"ok   {name}", flush=True)


def main():
    prepare()
    belljar = BUILT / "belljar"
    code = [belljar, "run", "-c"]
    hello = "print(6 * 7)"
    check("doctor finds the delegated group", [belljar, "doctor"], words=["memory v2, pids v2, cpu v2; writable"])
    check("code runs", [*code, hello], words=["^42$"], never=["warning"])
    memory = [belljar, "run", "--memory", "64M", "-c", "import os\nfor i in range(4): os.fork()\nx = bytearray(16 << 20)"]
    check("memory is limited for all processes together", memory, status=122, words=[r"\(oom\)"])
    forks = "import os, time\nfor i in range(100):\n  if os.fork() == 0: time.sleep(600)"
    check("processes are limited", [belljar, "run", "--pids", "16", "-c", forks], status=121, words=[r"\(pids\)"])
    spin = [belljar, "run", "--cpu-time", "2s", "-c", "import os\nos.fork()\nwhile True: pass"]
    check("CPU time is limited", spin, status=123, words=[r"\(timeout_cpu\)"])
    daemon = "import os, time\nif os.fork() == 0:\n  os.setsid()\n  time.sleep(600)"
    check("daemons end with their call", [*code, daemon])
    table = REPOSITORY / "tests/eval/dabench/tables/test_ave.csv"
    check("a question is answered", [belljar, "ask", "How many rows are there?", "--data", table], words=[r"\d"])

    half = [belljar, "run", "--cpus", "0.5", "-c", hello]
    check("part of a core is kept", half, words=["^42$"], never=["warning", WATCHED])

    check("without delegation, that is told", [*code, hello], words=["^42$", WATCHED], delegated=False)
    told = ["not writable", "memory and processes are watched", "Delegate=yes"]
    check("without delegation, doctor says so", [belljar, "doctor"], words=told, delegated=False)
    one = [belljar, "run", "--memory", "64M", "-c", "x = bytearray(b'1' * (200 << 20))\nimport time\ntime.sleep(5)"]
    check("without delegation, memory is watched", one, status=122, words=[r"\(oom\)"], delegated=False)
    six = "import os, time\nfor i in range(6):\n  if os.fork() == 0: x = b'1' * (50 << 20); time.sleep(9)\ntime.sleep(9)"
    six = [belljar, "run", "--memory", "64M", "-c", six]
    check("without delegation, for all processes together", six, status=122, words=[r"\(oom\)"], delegated=False)
    many = [belljar, "run", "--pids", "16", "-c", forks]
    check("without delegation, processes are limited", many, status=121, words=[r"\(pids\)"], delegated=False)
    check("without delegation, CPU time is limited", spin, status=123, words=[r"\(timeout_cpu\)"], delegated=False)
    words = ["cannot keep --cpus 0.5", "Delegate=yes", "--allow-weak-limits"]
    check("without delegation, part of a core is refused", half, status=125, words=words, delegated=False)
    weak = [belljar, "run", "--allow-weak-limits", "--cpus", "0.5", "-c", hello]
    check("without delegation, it may be allowed", weak, words=["^42$", "warning"], delegated=False)
    # The process tier needs a Landlock that rules TCP.
    if tuple(int(part) for part in os.uname().release.split(".")[:2]) >= (6, 7):
        process = [belljar, "run", "--tier", "process"]
        words = ["cannot keep --pids 16", "--allow-weak-limits"]
        refused = [*process, "--pids", "16", "-c", hello]
        check("the process tier refuses --pids", refused, status=125, words=words, delegated=False)
        weak = [*process, "--allow-weak-limits", "--pids", "16", "-c", forks]
        check("the process tier watches processes", weak, status=121, words=[r"\(pids\)"], delegated=False)
        told = ["the process tier does not keep"]
        check("doctor says so of the process tier", [belljar, "doctor"], words=told, delegated=False)
    for tier, why in {
        "oci/crun": "creating containers needs root",
        "gvisor": "creating containers needs root",
        "microvm": "monitor needs root",
    }.items():
        template = ["--template", "python-data"] if tier == "microvm" else []
        words = [f"cannot run the `{'oci/runsc' if tier == 'gvisor' else tier}` tier", why]
        refused = [belljar, "run", "--tier", tier, *template, "-c", hello]
        check(f"{tier} is refused", refused, status=None, words=words, never=["^42$"])
    way_out = [belljar, "run", "--allow", "example.com", "-c", hello]
    check("a way out is refused", way_out, status=None, words=["of a sandbox needs root"], never=["^42$"])

    suite("conformance of the jail", [BUILT / "belljar-conformance", "--tier", "jail"])
    limits = [BUILT / "belljar-conformance", "--tier", "jail", "limits"]
    suite("conformance of limits without delegation", limits, delegated=False)
    if SDK:
        suite("the SDK against a server", [SDK, "/opt/served.py", REPOSITORY, belljar])
    SLICE.rmdir()


if __name__ == "__main__":
    main()
