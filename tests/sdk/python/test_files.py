"""Files: what is written is read, in every format, and described truthfully."""

import io
import secrets

import pytest
from e2b import FileType
from e2b.exceptions import FileNotFoundException, InvalidArgumentException

covers = pytest.mark.covers


@covers("Filesystem.write", "Filesystem.read")
def test_text_comes_back_as_it_went(sandbox, place):
    info = sandbox.files.write(f"{place}/text.txt", "grüße\n日本語 🦀\n")
    assert (info.name, info.path, info.type) == ("text.txt", f"{place}/text.txt", FileType.FILE)
    assert sandbox.files.read(f"{place}/text.txt") == "grüße\n日本語 🦀\n"


@covers("Filesystem.write", "Filesystem.read")
@pytest.mark.parametrize("options", [{}, {"gzip": True}, {"use_octet_stream": True}])
def test_bytes_come_back_as_they_went(sandbox, place, options):
    data = secrets.token_bytes(3 << 20)
    sandbox.files.write(f"{place}/blob", data, **options)
    assert sandbox.files.read(f"{place}/blob", format="bytes") == data
    assert sandbox.files.read(f"{place}/blob", format="bytes", gzip=True) == data
    assert sandbox.files.get_info(f"{place}/blob").size == len(data)


@covers("Filesystem.write")
def test_file_objects_and_streams_can_be_written(sandbox, place):
    sandbox.files.write(f"{place}/object", io.BytesIO(b"from an object"))
    sandbox.files.write(f"{place}/stream", (b"%d," % n for n in range(1000)))
    assert sandbox.files.read(f"{place}/object") == "from an object"
    assert sandbox.files.read(f"{place}/stream") == "".join(f"{n}," for n in range(1000))


@covers("Filesystem.read")
def test_an_empty_file_is_empty_in_every_format(sandbox, place):
    sandbox.files.write(f"{place}/empty", "")
    assert sandbox.files.read(f"{place}/empty") == ""
    assert sandbox.files.read(f"{place}/empty", format="bytes") == b""
    assert b"".join(sandbox.files.read(f"{place}/empty", format="stream")) == b""


@covers("Filesystem.read", "FileStreamReader.close")
def test_a_file_can_be_read_in_pieces_and_left_early(sandbox, place):
    data = secrets.token_bytes(4 << 20)
    sandbox.files.write(f"{place}/large", data)
    assert b"".join(sandbox.files.read(f"{place}/large", format="stream")) == data
    reader = sandbox.files.read(f"{place}/large", format="stream")
    first = next(reader)
    assert data.startswith(first) and first
    reader.close()
    with pytest.raises(StopIteration):
        next(reader)
    assert sandbox.files.exists(f"{place}/large")


@covers("Filesystem.read")
def test_a_missing_file_and_a_directory_cannot_be_read(sandbox, place):
    with pytest.raises(FileNotFoundException):
        sandbox.files.read(f"{place}/missing")
    with pytest.raises(InvalidArgumentException):
        sandbox.files.read(place)


@covers("Filesystem.write")
def test_writing_makes_parents_and_replaces(sandbox, place):
    sandbox.files.write(f"{place}/a/b/c.txt", "first version")
    sandbox.files.write(f"{place}/a/b/c.txt", "second")
    assert sandbox.files.read(f"{place}/a/b/c.txt") == "second"


@covers("Filesystem.write")
def test_what_is_written_belongs_to_the_user(sandbox, place):
    sandbox.files.write(f"{place}/mine", "x")
    entry = sandbox.files.get_info(f"{place}/mine")
    assert (entry.owner, entry.group) == ("user", "user")
    assert sandbox.commands.run(f"echo y >> {place}/mine && cat {place}/mine").stdout == "xy\n"


def owners(sandbox, *paths):
    """User and group of each, as the sandbox itself sees them."""
    shown = sandbox.commands.run(f"stat -c %U:%G {' '.join(paths)}").stdout
    return dict(zip(paths, shown.split()))


@covers("Filesystem.write", "Filesystem.make_dir", "Filesystem.rename")
def test_what_is_made_where_only_root_may_belongs_to_the_named_user(sandbox):
    # In `/`, and in a directory that root has.
    for top in (f"/owned-{secrets.token_hex(4)}", f"/etc/owned-{secrets.token_hex(4)}/deep"):
        sandbox.files.write(f"{top}/in/file", "x")
        sandbox.files.make_dir(f"{top}-made/in")
        sandbox.files.rename(f"{top}/in/file", f"{top}-moved/in/file")
        paths = [f"{top}{end}" for end in ("", "/in", "-made", "-made/in", "-moved", "-moved/in", "-moved/in/file")]
        assert owners(sandbox, *paths) == dict.fromkeys(paths, "user:user")
        # So its commands go on from there.
        sandbox.commands.run(f"chmod 600 {top}-moved/in/file && echo y >> {top}-moved/in/file && mkdir {top}/more")
        assert sandbox.files.read(f"{top}-moved/in/file") == "xy\n"
    assert owners(sandbox, "/", "/etc") == {"/": "root:root", "/etc": "root:root"}


@covers("Filesystem.write", "Filesystem.make_dir")
def test_what_root_writes_belongs_to_root_wherever_it_is(sandbox, place):
    sandbox.files.write(f"{place}/roots", "x", user="root")
    sandbox.files.make_dir(f"{place}/made/in", user="root")
    sandbox.files.write("/etc/written-by-root", "x", user="root")
    paths = [f"{place}/roots", f"{place}/made", f"{place}/made/in", "/etc/written-by-root"]
    assert owners(sandbox, *paths) == dict.fromkeys(paths, "root:root")


@covers("Filesystem.write")
def test_a_file_has_the_user_who_wrote_it_last(sandbox):
    path = f"/tmp/{secrets.token_hex(4)}"
    sandbox.commands.run(f"echo first > {path}", user="root")
    sandbox.files.write(path, "second")
    assert (sandbox.files.read(path), owners(sandbox, path)) == ("second", {path: "user:user"})
    sandbox.files.write(path, "third", user="root")
    assert (sandbox.files.read(path), owners(sandbox, path)) == ("third", {path: "root:root"})


@covers("Filesystem.write")
def test_relative_paths_start_at_the_home(sandbox):
    assert sandbox.files.write("relative.txt", "here").path == "/home/user/relative.txt"
    assert sandbox.files.read("~/relative.txt") == "here"


@covers("Filesystem.write_files")
@pytest.mark.parametrize("octets", [False, True])
def test_several_files_go_in_one_call(sandbox, place, octets):
    files = [{"path": f"{place}/many/{name}", "data": name * 3} for name in ("a", "b b", 'c"d', "ü")]
    written = sandbox.files.write_files(files, use_octet_stream=octets)
    assert [info.path for info in written] == [file["path"] for file in files]
    assert [sandbox.files.read(file["path"]) for file in files] == [file["data"] for file in files]


@covers("Filesystem.write_files")
def test_no_files_are_no_work(sandbox):
    assert sandbox.files.write_files([]) == []


@covers("Filesystem.list")
def test_a_listing_goes_as_deep_as_asked(sandbox, place):
    sandbox.files.write_files([{"path": f"{place}/{path}", "data": "x"} for path in ("top", "in/mid", "in/in/low")])
    assert {entry.path.removeprefix(place) for entry in sandbox.files.list(place)} == {"/top", "/in"}
    deep = {entry.path.removeprefix(place): entry.type for entry in sandbox.files.list(place, depth=3)}
    assert deep == {
        "/top": FileType.FILE, "/in": FileType.DIR, "/in/mid": FileType.FILE,
        "/in/in": FileType.DIR, "/in/in/low": FileType.FILE,
    }  # fmt: skip


@covers("Filesystem.list")
def test_only_directories_that_exist_can_be_listed(sandbox, place):
    sandbox.files.write(f"{place}/file", "x")
    with pytest.raises(FileNotFoundException):
        sandbox.files.list(f"{place}/missing")
    with pytest.raises(InvalidArgumentException):
        sandbox.files.list(f"{place}/file")


@covers("Filesystem.get_info")
def test_an_entry_is_described_as_it_is(sandbox, place):
    sandbox.files.write(f"{place}/script.sh", "echo hi\n")
    sandbox.commands.run(f"chmod 750 {place}/script.sh; ln -s script.sh {place}/link")
    entry = sandbox.files.get_info(f"{place}/script.sh")
    assert (entry.name, entry.type, entry.size, entry.mode) == ("script.sh", FileType.FILE, 8, 0o750)
    assert entry.permissions == "-rwxr-x---" and entry.symlink_target is None
    clock = float(sandbox.commands.run("date +%s.%N").stdout)
    assert 0 <= clock - entry.modified_time.timestamp() < 60
    link = sandbox.files.get_info(f"{place}/link")
    assert (link.type, link.symlink_target) == (FileType.SYMLINK, f"{place}/script.sh")
    assert sandbox.files.get_info(place).type is FileType.DIR
    with pytest.raises(FileNotFoundException):
        sandbox.files.get_info(f"{place}/missing")


@covers("Filesystem.write", "Filesystem.get_info", "Filesystem.list")
def test_metadata_stays_with_a_file_until_it_is_replaced(sandbox, place):
    written = sandbox.files.write(f"{place}/tagged", "x", metadata={"origin": "upload", "stage": "raw"})
    assert written.metadata == {"origin": "upload", "stage": "raw"}
    assert sandbox.files.get_info(f"{place}/tagged").metadata == written.metadata
    assert sandbox.files.list(place)[0].metadata == written.metadata
    sandbox.files.write(f"{place}/tagged", "y", metadata={"stage": "clean"})
    assert sandbox.files.get_info(f"{place}/tagged").metadata == {"stage": "clean"}


@covers("Filesystem.exists")
def test_existence_is_told_for_files_directories_and_neither(sandbox, place):
    sandbox.files.write(f"{place}/file", "x")
    assert [sandbox.files.exists(path) for path in (place, f"{place}/file", f"{place}/none")] == [True, True, False]


@covers("Filesystem.make_dir")
def test_a_directory_is_made_with_its_parents_once(sandbox, place):
    assert sandbox.files.make_dir(f"{place}/x/y/z") is True
    assert sandbox.files.make_dir(f"{place}/x/y/z") is False
    assert sandbox.files.get_info(f"{place}/x/y/z").owner == "user"


@covers("Filesystem.remove")
def test_removing_takes_whole_trees_and_only_them(sandbox, place):
    sandbox.files.write_files([{"path": f"{place}/{path}", "data": "x"} for path in ("tree/a/b", "tree/c", "keep")])
    sandbox.files.remove(f"{place}/tree")
    assert [entry.name for entry in sandbox.files.list(place)] == ["keep"]
    sandbox.files.remove(f"{place}/tree")


@covers("Filesystem.rename")
def test_renaming_moves_content_and_makes_parents(sandbox, place):
    sandbox.files.write(f"{place}/old", "content")
    entry = sandbox.files.rename(f"{place}/old", f"{place}/sub/new")
    assert (entry.name, entry.path) == ("new", f"{place}/sub/new")
    assert sandbox.files.read(f"{place}/sub/new") == "content"
    assert not sandbox.files.exists(f"{place}/old")
    with pytest.raises(FileNotFoundException):
        sandbox.files.rename(f"{place}/missing", f"{place}/other")
