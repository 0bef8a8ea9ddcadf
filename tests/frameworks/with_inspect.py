"""UK AISI's Inspect with the sandbox `e2b` of inspect-sandboxes: its tools in an evaluation, a Dockerfile, its own checks."""

import os
import pathlib
import tempfile

# It draws on the terminal otherwise.
os.environ["INSPECT_DISPLAY"] = "none"

from checks import check, main, same
from inspect_ai import Task, eval_async
from inspect_ai.dataset import Sample
from inspect_ai.scorer import includes
from inspect_ai.solver import generate, use_tools
from inspect_ai.tool import bash, bash_session, python, text_editor
from inspect_ai.util._sandbox import self_check
from inspect_sandboxes.e2b._e2b import E2BSandboxEnvironment

# Checks of Inspect's own that fail. All but the first fail with E2B's service as well.
EXPECTED = {
    "test_exec_as_user": "commands run as `user` or `root`, and as no user that was added",
    "test_exec_as_nonexistent_user": "the SDK raises an error, and the check wants a status",
    "test_exec_large_command": "Linux takes no argument of more than 128 KiB",
    "test_exec_permission_error": "commands run as root",
    "test_exec_timeout_not_raised_on_fast_signal_death": "E2B's protocol has no status for a signal",
    "test_read_file_not_allowed": "files are read with the rights of root",
    "test_write_binary_file_without_permissions": "files are written with the rights of root",
    "test_write_text_file_without_permissions": "files are written with the rights of root",
}


async def evaluate(sandbox, target, *tools):
    """The messages of the one sample of an evaluation, which must have ended well."""
    sample = Sample(input="Use your tools.", target=target)
    with tempfile.TemporaryDirectory() as logs:
        solver = [use_tools(*tools), generate()]
        task = Task(dataset=[sample], solver=solver, scorer=includes(), sandbox=sandbox)
        log = (await eval_async(task, model="openai/scripted", log_dir=logs))[0]
        assert log.status == "success", log.error
        # Samples are read from the log's file.
        (sample,) = log.samples
    same([message.error.message for message in sample.messages if getattr(message, "error", None)], [])
    same(sample.scores["includes"].value, "C")
    return [message.text for message in sample.messages if message.role == "tool"]


@check
async def an_evaluation_uses_every_tool():
    said = await evaluate("e2b", "changed line", bash(), python(), text_editor(), bash_session())
    assert said[0].startswith("root\n") and "/proc/stat" in said[0], said[0]
    same(said[1].strip(), "45")
    assert "first line\nchanged line\nlast line" in said[5].replace("\r", ""), said[5]
    assert "last line" in said[6], said[6]


@check
async def a_dockerfile_is_built_and_used():
    with tempfile.TemporaryDirectory() as folder:
        dockerfile = pathlib.Path(folder) / "Dockerfile"
        dockerfile.write_text(
            "FROM e2bdev/base\nRUN pip install inflection\nRUN useradd --create-home ann && chown ann /srv\nWORKDIR /work\n"
        )
        tools = [bash(), python(), text_editor(), bash_session()]
        await evaluate(("e2b", str(dockerfile)), "changed line", *tools)
        environment = await start(str(dockerfile))
        try:
            done = await environment.exec(["sh", "-c", "python3 -c 'import inflection' && stat -c %U /srv && pwd"])
            same((done.stdout, done.stderr), ("ann\n/work\n", ""))
        finally:
            await end(environment)


async def start(config=None):
    await E2BSandboxEnvironment.task_init("checks", config)
    return (await E2BSandboxEnvironment.sample_init("checks", config, {}))["default"]


async def end(environment):
    await E2BSandboxEnvironment.sample_cleanup("checks", None, {"default": environment}, False)


@check
async def its_own_checks_of_a_sandbox_pass():
    environment, failed = await start(), {}
    try:
        names = [name for name in dir(self_check) if name.startswith("test_")]
        assert len(names) > 40, names
        for name in names:
            try:
                await getattr(self_check, name)(environment)
            except Exception as error:
                failed[name] = str(error).partition("\n")[0][:200]
    finally:
        await end(environment)
    unexpected = {name: why for name, why in failed.items() if name not in EXPECTED}
    assert not unexpected, unexpected
    same(sorted(set(EXPECTED) - set(failed)), [])


main()
