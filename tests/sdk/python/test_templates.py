"""Templates: built from another one, tagged, and started from."""

import time
import uuid

import pytest
from e2b import Sandbox, Template
from e2b.exceptions import BuildException, TemplateException
from e2b.template.types import TemplateBuildStatus

covers = pytest.mark.covers


def name():
    return f"sdk-{uuid.uuid4().hex[:12]}"


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """One template with a step of every kind."""
    context = tmp_path_factory.mktemp("context")
    (context / "seed").mkdir()
    (context / "seed" / "data.txt").write_text("from the context\n")
    template = (
        Template(file_context_path=str(context))
        .from_template("base")
        .copy("seed/data.txt", "/home/user/data.txt")
        .run_cmd("mkdir -p work && echo made > work/made.txt")
        .set_envs({"FLAVOUR": "plum"})
        .set_workdir("/home/user/work")
    )
    logs = []
    info = Template.build(template, name(), tags=["first"], on_build_logs=logs.append)
    return info, logs


@covers("Template.build", "Sandbox.create")
def test_what_a_template_was_built_with_is_in_its_sandboxes(built, fresh):
    info, _ = built
    sandbox = fresh(f"{info.name}:first")
    shown = sandbox.commands.run("pwd; cat made.txt; echo $FLAVOUR; cat ~/data.txt; stat -c %U ~/data.txt").stdout
    assert shown.splitlines() == ["/home/user/work", "made", "plum", "from the context", "user"]


@covers("Template.build")
def test_a_build_tells_what_it_does(built):
    info, logs = built
    assert info.template_id and info.build_id
    assert any("mkdir -p work" in entry.message for entry in logs)


@covers("Template.build")
def test_a_step_that_fails_fails_the_build_with_its_words():
    template = Template().from_template("base").run_cmd("echo the reason >&2; exit 3")
    logs = []
    with pytest.raises(BuildException):
        Template.build(template, name(), on_build_logs=logs.append)
    assert any("the reason" in entry.message for entry in logs)


@covers("Template.build")
def test_the_same_step_may_come_twice(fresh):
    step = "ln -sf /etc/hostname /home/user/link"
    template = Template().from_template("base").run_cmd(step).run_cmd("touch between").run_cmd(step)
    sandbox = fresh(Template.build(template, name()).name)
    assert sandbox.files.get_info("/home/user/link").symlink_target
    assert sandbox.files.exists("/home/user/between")


@covers("Template.build_in_background", "Template.get_build_status")
def test_a_build_in_the_background_can_be_followed():
    info = Template.build_in_background(Template().from_template("base").run_cmd("echo working"), name())
    deadline, offset, said = time.monotonic() + 120, 0, []
    while True:
        status = Template.get_build_status(info, logs_offset=offset)
        offset += len(status.log_entries)
        said += [entry.message for entry in status.log_entries]
        if status.status not in (TemplateBuildStatus.WAITING, TemplateBuildStatus.BUILDING):
            break
        assert time.monotonic() < deadline, "the build did not end"
        time.sleep(0.2)
    assert status.status is TemplateBuildStatus.READY and status.build_id == info.build_id
    assert any("echo working" in message for message in said)


@covers("Template.exists", "Template.alias_exists")
def test_a_name_is_known_once_it_is_built(built):
    info, _ = built
    assert Template.exists(info.name) is True and Template.alias_exists(info.name) is True
    assert Template.exists(name()) is False and Template.alias_exists(name()) is False


@covers("Template.assign_tags", "Template.get_tags", "Template.remove_tags", "Sandbox.create")
def test_tags_come_and_go(built, fresh):
    info, _ = built

    def tags():
        return {tag.tag: tag.build_id for tag in Template.get_tags(info.template_id)}

    assert tags()["first"] == info.build_id
    given = Template.assign_tags(f"{info.name}:first", ["stable", "v1"])
    assert set(given.tags) >= {"stable", "v1"} and given.build_id == info.build_id
    assert tags()["stable"] == info.build_id
    assert fresh(f"{info.name}:stable").commands.run("cat made.txt").stdout == "made\n"
    Template.remove_tags(info.name, ["stable"])
    assert "stable" not in tags() and "v1" in tags()
    with pytest.raises(TemplateException):
        Template.assign_tags(f"{name()}:none", "x")
    with pytest.raises(Exception):
        Sandbox.create(f"{info.name}:stable")


@covers("Template.build")
def test_a_start_command_runs_in_every_sandbox(fresh):
    template = (
        Template()
        .from_template("base")
        .set_start_cmd("echo started > /home/user/started; sleep 300", "test -f /home/user/started")
    )
    info = Template.build(template, name())
    sandbox = fresh(info.name)
    deadline = time.monotonic() + 60
    while not any("sleep 300" in " ".join([process.cmd, *process.args]) for process in sandbox.commands.list()):
        assert time.monotonic() < deadline, "the start command does not run"
        time.sleep(0.1)
    assert sandbox.files.read("/home/user/started") == "started\n"
