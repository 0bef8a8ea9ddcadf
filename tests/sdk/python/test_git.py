"""Git, as the SDK drives it: two clones around a bare repository inside one sandbox."""

import pytest
from e2b.exceptions import GitAuthException, InvalidArgumentException

covers = pytest.mark.covers


@pytest.fixture
def repository(sandbox, place):
    """A repository with one commit of `file`."""
    path = f"{place}/repository"
    sandbox.git.init(path, initial_branch="main")
    sandbox.files.write(f"{path}/file", "one\n")
    sandbox.git.add(path)
    sandbox.git.commit(path, "First", author_name="Ada", author_email="ada@example.com")
    return path


@covers("Git.init", "Git.add", "Git.commit", "Git.status")
def test_changes_are_seen_staged_and_committed(sandbox, place):
    path = f"{place}/repository"
    sandbox.git.init(path, initial_branch="main")
    sandbox.files.write_files([{"path": f"{path}/a", "data": "x"}, {"path": f"{path}/b", "data": "y"}])
    assert sandbox.git.status(path).untracked_count == 2
    sandbox.git.add(path, files=["a"])
    status = sandbox.git.status(path)
    assert {(file.name, file.staged) for file in status.file_status} == {("a", True), ("b", False)}
    sandbox.git.add(path)
    sandbox.git.commit(path, "Both", author_name="Ada", author_email="ada@example.com")
    status = sandbox.git.status(path)
    assert status.is_clean and status.current_branch == "main"
    assert sandbox.commands.run("git log --format='%an %ae %s'", cwd=path).stdout == "Ada ada@example.com Both\n"


@covers("Git.branches", "Git.create_branch", "Git.checkout_branch", "Git.delete_branch")
def test_branches_come_and_go(sandbox, repository):
    sandbox.git.create_branch(repository, "topic")
    branches = sandbox.git.branches(repository)
    assert (set(branches.branches), branches.current_branch) == ({"main", "topic"}, "topic")
    sandbox.git.checkout_branch(repository, "main")
    assert sandbox.git.branches(repository).current_branch == "main"
    sandbox.git.delete_branch(repository, "topic", force=True)
    assert sandbox.git.branches(repository).branches == ["main"]


@covers("Git.reset", "Git.restore")
def test_changes_can_be_taken_back(sandbox, repository):
    sandbox.files.write(f"{repository}/file", "two\n")
    sandbox.git.add(repository)
    assert sandbox.git.status(repository).staged_count == 1
    sandbox.git.restore(repository, paths=["file"], staged=True)
    assert sandbox.git.status(repository).staged_count == 0
    sandbox.git.restore(repository, paths=["file"])
    assert sandbox.files.read(f"{repository}/file") == "one\n"
    sandbox.files.write(f"{repository}/file", "three\n")
    sandbox.git.reset(repository, mode="hard", target="HEAD")
    assert sandbox.files.read(f"{repository}/file") == "one\n" and sandbox.git.status(repository).is_clean


@covers("Git.clone", "Git.push", "Git.pull", "Git.remote_add", "Git.remote_get")
def test_commits_travel_between_clones(sandbox, repository, place):
    bare, other = f"{place}/bare.git", f"{place}/other"
    sandbox.git.init(bare, bare=True, initial_branch="main")
    assert sandbox.git.remote_get(repository, "origin") is None
    sandbox.git.remote_add(repository, "origin", bare)
    assert sandbox.git.remote_get(repository, "origin") == bare
    sandbox.git.push(repository, remote="origin", branch="main")
    sandbox.git.clone(bare, other)
    assert sandbox.files.read(f"{other}/file") == "one\n"
    sandbox.files.write(f"{repository}/file", "two\n")
    sandbox.git.add(repository)
    sandbox.git.commit(repository, "Second", author_name="Ada", author_email="ada@example.com")
    assert sandbox.git.status(repository).ahead == 1
    sandbox.git.push(repository, remote="origin", branch="main")
    sandbox.git.pull(other)
    assert sandbox.files.read(f"{other}/file") == "two\n"


@covers("Git.set_config", "Git.get_config", "Git.configure_user")
def test_settings_are_kept(sandbox, repository):
    sandbox.git.set_config("pull.rebase", "false", scope="local", path=repository)
    assert sandbox.git.get_config("pull.rebase", scope="local", path=repository) == "false"
    assert sandbox.git.get_config("no.such", scope="local", path=repository) is None
    sandbox.git.configure_user("Grace", "grace@example.com")
    assert sandbox.git.get_config("user.name") == "Grace"
    assert sandbox.git.get_config("user.email") == "grace@example.com"


@covers("Git.dangerously_authenticate")
def test_credentials_are_stored_where_git_finds_them(sandbox):
    sandbox.git.dangerously_authenticate("ada", "token-123", host="git.example.com")
    filled = sandbox.commands.run("printf 'protocol=https\\nhost=git.example.com\\n\\n' | git credential fill").stdout
    assert "username=ada" in filled and "password=token-123" in filled
    with pytest.raises((InvalidArgumentException, GitAuthException)):
        sandbox.git.dangerously_authenticate("", "")
