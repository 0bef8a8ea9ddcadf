"""Secrets: names and versions are told, values never."""

import uuid

import pytest
from e2b import Secret
from e2b.exceptions import SecretException, SecretNotFoundException

covers = pytest.mark.covers


@pytest.fixture
def name():
    name = f"sdk-{uuid.uuid4().hex[:12]}"
    yield name
    Secret.destroy(name)


@covers("Secret.create", "Secret.get_info", "Secret.update", "Secret.exists", "Secret.destroy")
def test_a_secret_has_a_life_and_versions(name):
    assert Secret.exists(name) is False
    made = Secret.create(name, "hunter2-first", metadata={"team": "blue"})
    assert (made.name, made.version, made.metadata) == (name, 1, {"team": "blue"})
    assert Secret.get_info(name) == Secret.get_info(made.secret_id) == made
    assert Secret.exists(name) and Secret.exists(made.secret_id)
    changed = Secret.update(name, "hunter2-second")
    assert changed.version == 2 and changed.secret_id == made.secret_id and changed.updated_at >= made.updated_at
    assert "hunter2" not in repr(Secret.get_info(name))
    assert Secret.destroy(name) is True
    assert Secret.destroy(name) is False
    assert Secret.exists(name) is False
    with pytest.raises(SecretNotFoundException):
        Secret.get_info(name)
    with pytest.raises(SecretNotFoundException):
        Secret.update(name, "x")


@covers("Secret.create")
def test_a_name_is_taken_once(name):
    Secret.create(name, "x")
    with pytest.raises(SecretException, match="409"):
        Secret.create(name, "y")


@covers("Secret.list", "SecretPaginator.next_items")
def test_secrets_are_listed_in_pages(name):
    names = [f"{name}-{n}" for n in range(3)]
    for each in names:
        Secret.create(each, "x")
    pages, seen = Secret.list(limit=2), []
    while pages.has_next:
        items = pages.next_items()
        assert len(items) <= 2
        seen += [item.name for item in items]
    assert set(names) <= set(seen) and len(seen) == len(set(seen))
    assert all(Secret.destroy(each) for each in names)


@covers("Secret.fill", "Secret.iam_token")
def test_placeholders_are_made_without_a_server():
    assert Secret.fill("db") == "${e2b.secrets.db}"
    assert Secret.iam_token(audience="bank", token_type="JWT-SVID") == {"audience": "bank", "token_type": "JWT-SVID"}
