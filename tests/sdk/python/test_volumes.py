"""Volumes: files that outlive sandboxes."""

import secrets
import uuid

import pytest
from e2b import Sandbox, Volume
from e2b.exceptions import NotFoundException, SandboxException, VolumeException
from e2b.volume.types import VolumeFileType

covers = pytest.mark.covers


@pytest.fixture
def volume():
    volume = Volume.create(f"sdk-{uuid.uuid4().hex[:12]}")
    yield volume
    Volume.destroy(volume.volume_id)


@covers("Volume.create", "Volume.connect", "Volume.get_info (class)", "Volume.list (class)", "Volume.destroy")
def test_a_volume_is_made_found_and_destroyed():
    name = f"sdk-{uuid.uuid4().hex[:12]}"
    volume = Volume.create(name)
    assert volume.name == name and volume.token
    assert Volume.get_info(volume.volume_id).name == name
    assert (volume.volume_id, name) in [(info.volume_id, info.name) for info in Volume.list()]
    volume.write_file("/note", "x")
    assert Volume.connect(volume.volume_id).read_file("/note") == "x"
    assert Volume.destroy(volume.volume_id) is True
    assert Volume.destroy(volume.volume_id) is False
    with pytest.raises(NotFoundException):
        Volume.connect(volume.volume_id)
    assert name not in [info.name for info in Volume.list()]


@covers("Volume.create")
def test_a_name_is_taken_once(volume):
    with pytest.raises(VolumeException):
        Volume.create(volume.name)


@covers("Volume.write_file", "Volume.read_file")
def test_content_comes_back_in_every_format(volume):
    data = secrets.token_bytes(2 << 20)
    stat = volume.write_file("/deep/blob", data, mode=0o640)
    assert (stat.name, stat.path, stat.size, stat.mode & 0o777) == ("blob", "/deep/blob", len(data), 0o640)
    assert stat.type is VolumeFileType.FILE
    assert volume.read_file("/deep/blob", format="bytes") == data
    assert b"".join(volume.read_file("/deep/blob", format="stream")) == data
    volume.write_file("/text", "grüße")
    assert volume.read_file("/text") == "grüße"
    with pytest.raises(NotFoundException):
        volume.read_file("/missing")


@covers("Volume.make_dir", "Volume.list (instance)", "Volume.exists", "Volume.get_info (instance)", "Volume.remove")
def test_directories_can_be_made_listed_and_removed(volume):
    assert volume.make_dir("/a").type is VolumeFileType.DIRECTORY
    volume.make_dir("/a/b/c", force=True)
    volume.write_file("/a/file", "12345")
    assert {stat.path for stat in volume.list("/a")} == {"/a/b", "/a/file"}
    assert {stat.path for stat in volume.list("/", depth=3)} == {"/a", "/a/b", "/a/b/c", "/a/file"}
    assert volume.get_info("/a/file").size == 5
    assert volume.exists("/a/b") and not volume.exists("/a/x")
    volume.remove("/a/file")
    assert not volume.exists("/a/file")
    volume.remove("/a")
    assert volume.list("/") == []
    with pytest.raises(NotFoundException):
        volume.remove("/a")


@covers("Volume.update_metadata")
def test_modes_and_owners_can_be_changed(volume):
    volume.write_file("/file", "x")
    stat = volume.update_metadata("/file", mode=0o600, uid=1000, gid=1000)
    assert (stat.mode & 0o777, stat.uid, stat.gid) == (0o600, 1000, 1000)
    assert volume.get_info("/file").mode & 0o777 == 0o600


@pytest.mark.refuses("Sandbox.create(volume_mounts=)")
def test_mounting_a_volume_is_refused(volume):
    with pytest.raises(SandboxException, match="(?i)volume") as refusal:
        Sandbox.create(volume_mounts={"/mnt/data": volume}).kill()
    assert refusal.value.status_code in (400, 501)
