"""Harbor's command line with its E2B environment: a task's Dockerfile is built, an oracle solves it, a script judges it."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

from checks import check, main, same

HARBOR = pathlib.Path(sys.executable).parent / "harbor"
TASK = """\
schema_version = "1.4"
artifacts = []

[task]
name = "checks/{name}"
version = "1.0.0"
description = ""
authors = []
keywords = []

[verifier]
timeout_sec = 300.0

[agent]
timeout_sec = 300.0

[environment]
network_mode = "public"
build_timeout_sec = 300.0
os = "linux"
"""
# As `harbor init` writes it, but for the image: no image is pulled.
PLAIN = "FROM e2bdev/base\n\nWORKDIR /app\n"
JUDGE = "if {condition}; then echo 1; else echo 0; fi > /logs/verifier/reward.txt\n"


def script(path, text):
    path.parent.mkdir(parents=True)
    path.write_text(f"#!/bin/bash\n{text}")


def reward(name, dockerfile, solution, condition):
    """Runs a task as users do, and answers what its script rewarded."""
    with tempfile.TemporaryDirectory(prefix="harbor-") as folder:
        task, jobs = pathlib.Path(folder) / name, pathlib.Path(folder) / "jobs"
        (task / "environment").mkdir(parents=True)
        (task / "environment" / "Dockerfile").write_text(dockerfile)
        (task / "environment" / "seed.txt").write_text("seed\n")
        (task / "task.toml").write_text(TASK.format(name=name))
        (task / "instruction.md").write_text("Solve it.\n")
        script(task / "solution" / "solve.sh", f"set -e\n{solution}\n")
        script(task / "tests" / "test.sh", JUDGE.format(condition=condition))
        # It keeps settings and caches in the home directory.
        environment = {**os.environ, "HOME": folder, "HARBOR_TELEMETRY": "off", "DO_NOT_TRACK": "1"}
        command = [HARBOR, "run", "--path", task, "--agent", "oracle", "--env", "e2b", "--jobs-dir", jobs, "--quiet"]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)
        results = [json.loads(path.read_text()) for path in jobs.glob("*/*/result.json")]
        assert len(results) == 1, f"{done.stdout}\n{done.stderr}"
        problem = results[0].get("exception_info")
        assert not problem, f"{problem['exception_type']}: {problem['exception_message']}"
        return results[0]["verifier_result"]["rewards"]["reward"]


@check
def a_plain_task_is_solved():
    solution = 'echo "$(pwd) $(id -un)" >answer'
    same(reward("plain", PLAIN, solution, 'grep -qx "/app root" /app/answer'), 1.0)


@check
def a_task_that_is_not_solved_has_no_reward():
    same(reward("unsolved", PLAIN, "true", "[ -e /app/answer ]"), 0.0)


@check
def a_dockerfile_installs_packages_and_adds_users():
    dockerfile = (
        "FROM e2bdev/base\n"
        "RUN apt-get update && apt-get install -y --no-install-recommends hello && rm -rf /var/lib/apt/lists/*\n"
        "RUN pip install inflection\n"
        "RUN useradd --create-home agent && mkdir /app && chown agent:agent /app\n"
        "COPY seed.txt /app/seed.txt\n"
        "WORKDIR /app\n"
    )
    solution = "hello >answer && python3 -c 'import inflection' && su agent -c 'cat /app/seed.txt >/app/agents'"
    condition = 'grep -q "Hello, world" answer && [ "$(stat -c %U agents)" = agent ] && grep -qx seed agents'
    same(reward("installs", dockerfile, solution, condition), 1.0)


@check
def an_image_that_cannot_be_pulled_fails_the_trial():
    try:
        reward("image", "FROM ubuntu:24.04\nWORKDIR /app\n", "true", "true")
    except AssertionError as error:
        assert "cannot pull the image 'ubuntu:24.04'" in str(error), error
    else:
        raise AssertionError("the trial did not fail")


main()
