#!/usr/bin/env python3
"""What programs of E2B's SDK install into templates, and use in sandboxes of them. Prints a line per check.

    installing.py with-network      on a server whose builds have package indexes
    installing.py without-network   on one whose builds have no network
"""

import sys
import traceback
import uuid

from e2b import Sandbox, Template
from e2b.exceptions import BuildException

checks = []


def check(function):
    checks.append(function)
    return function


def name():
    return f"installs-{uuid.uuid4().hex[:12]}"


def build(template):
    """Builds it; gives its name and all that the build said."""
    said = []
    try:
        info = Template.build(template, name(), on_build_logs=lambda entry: said.append(entry.message))
    except BuildException as error:
        error.said = "\n".join(said)
        raise
    return info.name, "\n".join(said)


def fails(template):
    """The words of a build that must fail: those of its error, and its log."""
    try:
        build(template)
    except BuildException as error:
        return str(error), error.said
    raise AssertionError("the build did not fail")


class Built:
    """One template with everything installed, and a sandbox of it."""

    sandbox = None

    @classmethod
    def run(cls, command, **options):
        if cls.sandbox is None:
            template = (
                Template()
                .from_template("base")
                .pip_install("humanize")
                .pip_install("inflection", g=False)
                .apt_install("hello", no_install_recommends=True)
                .npm_install("is-number", g=True)
                .run_cmd(
                    [
                        "useradd --create-home --shell /bin/bash ann",
                        "install -d -o ann -g ann /srv/ann",
                        "echo of ann >/srv/ann/note",
                        "chown ann:ann /srv/ann/note",
                        "chmod 600 /srv/ann/note",
                    ],
                    user="root",
                )
                .run_cmd("su ann -c 'id -un; cat /srv/ann/note' >/srv/said", user="root")
            )
            cls.name, cls.said = build(template)
            cls.sandbox = Sandbox.create(cls.name, timeout=300)
        return cls.sandbox.commands.run(command, **options).stdout


@check
def pip_install_is_imported():
    assert Built.run("python3 -c 'import humanize; print(humanize.intcomma(12345))'") == "12,345\n"


@check
def pip_install_of_the_user_is_in_its_home():
    found = Built.run("python3 -c 'import inflection; print(inflection.__file__)'")
    assert found.startswith("/home/user/.local/"), found


@check
def apt_install_is_run():
    assert Built.run("hello --greeting='has hello'") == "has hello\n"
    assert "install ok installed" in Built.run("dpkg-query -W -f '${Status}' hello")


@check
def npm_install_is_required():
    found = Built.run("NODE_PATH=$(npm root -g) node -e 'console.log(require(\"is-number\")(5))'")
    assert found == "true\n", found


@check
def useradd_and_chown_made_another_user():
    assert Built.run("stat -c '%U %G %a' /srv/ann/note /srv/ann; id -gn ann") == "ann ann 600\nann ann 755\nann\n"
    assert Built.run("cat /srv/said") == "ann\nof ann\n"
    assert Built.run("cat /srv/ann/note", user="root") == "of ann\n"
    assert Built.run("cat /srv/ann/note 2>&1 || true").endswith("Permission denied\n")


@check
def root_acts_for_another_user_in_the_sandbox():
    Built.run("useradd bob && chown bob /srv/said && su bob -c 'echo more >>/srv/said'", user="root")
    assert Built.run("stat -c %U /srv/said; cat /srv/said") == "bob\nann\nof ann\nmore\n"


@check
def nothing_of_the_network_is_in_the_template():
    found = Built.run("ls -d /etc/belljar 2>/dev/null; env | grep -i proxy; true")
    assert found == "", found


@check
def an_image_that_cannot_be_pulled_is_an_error():
    for image in ("python:3.12-slim", "registry.example/nobody/has:this"):
        why, _ = fails(Template().from_image(image).run_cmd("true"))
        assert f"cannot pull the image '{image}'" in why, why


def refused(template):
    """The same build as elsewhere; the hint names what the operator would have to give."""
    why, said = fails(template)
    assert "--build-network packages" in why + said, f"{why}\n{said}"


def pip_install_is_refused_with_a_hint():
    refused(Template().from_template("base").pip_install("humanize"))


def apt_install_is_refused_with_a_hint():
    refused(Template().from_template("base").apt_install("hello"))


def npm_install_is_refused_with_a_hint():
    refused(Template().from_template("base").npm_install("is-number", g=True))


def users_need_no_network():
    made, _ = build(Template().from_template("base").run_cmd("useradd ann && chown ann /srv", user="root"))
    sandbox = Sandbox.create(made, timeout=120)
    try:
        assert sandbox.commands.run("stat -c %U /srv").stdout == "ann\n"
    finally:
        sandbox.kill()


PARTS = {
    "with-network": checks,
    "without-network": [
        pip_install_is_refused_with_a_hint,
        apt_install_is_refused_with_a_hint,
        npm_install_is_refused_with_a_hint,
        users_need_no_network,
    ],
}


def main():
    failed = 0
    try:
        for one in PARTS[sys.argv[1]]:
            try:
                one()
                outcome = "ok"
            except Exception as error:
                failed, outcome = failed + 1, "FAILED"
                traceback.print_exc(file=sys.stdout)
                if said := getattr(error, "said", None):
                    print(said)
            print(f"installs, {sys.argv[1]}: {one.__name__.replace('_', ' ')} ... {outcome}", flush=True)
    finally:
        if Built.sandbox:
            Built.sandbox.kill()
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
