use super::*;
use std::os::unix::fs::symlink;

struct Fixture {
    /// Removed when it is dropped.
    _state: tempfile::TempDir,
    volumes: Volumes,
    volume: Arc<Volume>,
}

fn fixture(most_bytes: u64) -> Fixture {
    let state = tempfile::tempdir().unwrap();
    let volumes = Volumes::open(state.path(), most_bytes).unwrap();
    let volume = volumes.create(&Tenant::new("one"), "data", 10).unwrap();
    Fixture { _state: state, volumes, volume }
}

fn write(volume: &Arc<Volume>, path: &str, bytes: &[u8]) -> Result<VolumeEntry, Problem> {
    let mut incoming = volume.write(path, VolumeOwner::default(), true)?;
    incoming.add(bytes)?;
    incoming.finish()
}

fn read(volume: &Volume, path: &str) -> Result<Vec<u8>, Problem> {
    let mut bytes = Vec::new();
    io::Read::read_to_end(&mut volume.read(path)?.0, &mut bytes).unwrap();
    Ok(bytes)
}

#[test]
fn what_is_written_is_found_again() {
    let Fixture { volume, _state, .. } = fixture(1 << 20);
    let made = write(&volume, "/deep/file", b"12345").unwrap();
    assert_eq!((made.name.as_str(), made.path.as_str(), made.size), ("file", "/deep/file", 5));
    assert_eq!(made.mode, 0o644);
    assert_eq!(read(&volume, "deep/./file").unwrap(), b"12345");
    let paths = |depth| {
        let list = volume.list("/", depth).unwrap();
        list.into_iter().map(|entry| entry.path).collect::<Vec<_>>()
    };
    assert_eq!(paths(1), ["/deep"]);
    assert_eq!(paths(2), ["/deep", "/deep/file"]);
    let change = VolumeOwner { mode: Some(0o600), ..VolumeOwner::default() };
    assert_eq!(volume.change("/deep/file", change).unwrap().mode, 0o600);
    volume.remove("/deep").unwrap();
    assert_eq!(volume.stat("/deep/file").unwrap_err().kind, Kind::NotFound);
    assert_eq!(volume.remove("/deep").unwrap_err().kind, Kind::NotFound);
}

#[test]
fn bytes_are_counted_by_tenant() {
    let Fixture { volume, volumes, _state: state } = fixture(1 << 20);
    let other = volumes.create(&Tenant::new("two"), "data", 10).unwrap();
    write(&volume, "/a", b"12345").unwrap();
    write(&volume, "/b", b"678").unwrap();
    let of = |volumes: &Volumes| {
        let mut found = volumes.stored_bytes();
        found.sort_by(|one, two| one.0.as_str().cmp(two.0.as_str()));
        found.into_iter().map(|(_, bytes)| bytes).collect::<Vec<_>>()
    };
    assert_eq!(of(&volumes), [8, 0]);
    write(&other, "/c", b"9").unwrap();
    volume.remove("/a").unwrap();
    assert_eq!(of(&volumes), [3, 1]);
    // A server that is started again measures what is there.
    let again = Volumes::open(state.path(), 1 << 20).unwrap();
    assert_eq!(of(&again), [3, 1]);
}

#[test]
fn nothing_is_replaced_unless_asked_for() {
    let Fixture { volume, _state, .. } = fixture(1 << 20);
    write(&volume, "/a", b"old").unwrap();
    let again = volume.write("/a", VolumeOwner::default(), false);
    assert_eq!(again.unwrap_err().kind, Kind::Conflict);
    // Two that begin at the same time: only one of them gets the place.
    let begin = || volume.write("/b", VolumeOwner::default(), false).unwrap();
    let (first, second) = (begin(), begin());
    first.finish().unwrap();
    assert_eq!(second.finish().unwrap_err().kind, Kind::Conflict);
    volume.make_dir("/d", VolumeOwner::default(), false).unwrap();
    let again = volume.make_dir("/d", VolumeOwner::default(), false);
    assert_eq!(again.unwrap_err().kind, Kind::Conflict);
    assert!(volume.make_dir("/d", VolumeOwner::default(), true).is_ok());
    let orphan = volume.make_dir("/x/y", VolumeOwner::default(), false);
    assert_eq!(orphan.unwrap_err().kind, Kind::NotFound);
}

#[test]
fn hostile_paths_stay_below_the_volume() {
    let Fixture { volume, _state: state, .. } = fixture(1 << 20);
    std::fs::write(state.path().join("outside"), b"secret").unwrap();
    for path in ["../outside", "/../../outside", "a/../../../outside", "..", "a\0b"] {
        assert_eq!(volume.stat(path).unwrap_err().kind, Kind::Invalid, "{path:?}");
        let written = write(&volume, path, b"x");
        assert_eq!(written.unwrap_err().kind, Kind::Invalid, "{path:?}");
    }
    assert_eq!(std::fs::read(state.path().join("outside")).unwrap(), b"secret");
    for path in ["/", "", "."] {
        assert!(volume.remove(path).is_err(), "{path:?}");
        assert!(write(&volume, path, b"x").is_err(), "{path:?}");
    }
    assert!(Inside::parse(&"a/".repeat(65)).is_err());
    assert!(Inside::parse(&"a".repeat(256)).is_err());
}

#[test]
fn links_inside_lead_nowhere_else() {
    let Fixture { volume, _state: state, .. } = fixture(1 << 20);
    let outside = state.path().join("outside");
    std::fs::create_dir(&outside).unwrap();
    std::fs::write(outside.join("file"), b"secret").unwrap();
    let files = volume.dir.join("files");
    symlink(&outside, files.join("absolute")).unwrap();
    symlink("../../../outside", files.join("relative")).unwrap();
    symlink("/proc/self/root", files.join("magic")).unwrap();
    symlink(outside.join("file"), files.join("file")).unwrap();
    for path in ["/absolute/file", "/relative/file", "/magic/etc/passwd", "/file"] {
        assert!(read(&volume, path).is_err(), "{path}");
        assert!(volume.change(path, VolumeOwner::default()).is_err(), "{path}");
    }
    for path in ["/absolute/new", "/relative/new", "/absolute/file", "/relative/file"] {
        assert!(write(&volume, path, b"mine").is_err(), "{path}");
        assert!(volume.make_dir(path, VolumeOwner::default(), true).is_err(), "{path}");
        assert!(volume.remove(path).is_err(), "{path}");
    }
    assert!(volume.list("/absolute", 2).is_err());
    let listed = volume.list("/", 10).unwrap();
    assert_eq!(listed.len(), 4);
    assert!(listed.iter().all(|entry| entry.kind == VolumeEntryKind::Symlink));
    // A link itself can be seen, replaced and removed; what it names stays.
    assert_eq!(volume.stat("/file").unwrap().target, outside.join("file").to_str().map(Into::into));
    write(&volume, "/file", b"own").unwrap();
    assert_eq!(read(&volume, "/file").unwrap(), b"own");
    volume.remove("/absolute").unwrap();
    assert_eq!(std::fs::read(outside.join("file")).unwrap(), b"secret");
    assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 1);
}

#[test]
fn a_volume_holds_no_more_than_it_may() {
    let Fixture { volume, _state, .. } = fixture(10);
    write(&volume, "/a", b"123456").unwrap();
    assert_eq!(write(&volume, "/b", b"123456").unwrap_err().kind, Kind::NoSpace);
    assert!(volume.stat("/b").is_err());
    write(&volume, "/b", b"1234").unwrap();
    assert_eq!(write(&volume, "/c", b"1").unwrap_err().kind, Kind::NoSpace);
    // Two at once share what is left.
    volume.remove("/b").unwrap();
    let begin = |path| volume.write(path, VolumeOwner::default(), false).unwrap();
    let (mut one, mut other) = (begin("/x"), begin("/y"));
    one.add(b"123").unwrap();
    assert!(other.add(b"123").is_err());
    drop(one);
    assert!(other.add(b"123").is_ok());
    drop(other);
    // What is replaced makes room.
    write(&volume, "/a", b"1").unwrap();
    write(&volume, "/d", b"123456789").unwrap();
    assert_eq!(std::fs::read_dir(volume.dir.join("moving")).unwrap().count(), 0);
}

#[test]
fn no_file_of_a_volume_gives_rights() {
    let Fixture { volume, _state, .. } = fixture(1 << 20);
    let owner = VolumeOwner { mode: Some(0o4755), ..VolumeOwner::default() };
    assert!(volume.write("/suid", owner, false).is_err());
    assert!(volume.make_dir("/suid", owner, false).is_err());
    write(&volume, "/plain", b"").unwrap();
    assert!(volume.change("/plain", owner).is_err());
    let far = VolumeOwner { uid: Some(70_000), ..VolumeOwner::default() };
    assert!(volume.change("/plain", far).is_err());
}

#[test]
fn volumes_belong_to_tenants_and_outlive_the_server() {
    let Fixture { _state: state, volumes, volume } = fixture(1 << 20);
    let (one, two) = (Tenant::new("one"), Tenant::new("two"));
    write(&volume, "/note", b"kept").unwrap();
    assert!(volumes.find(&two, volume.id()).is_err());
    assert!(volumes.delete(&two, volume.id()).is_err());
    assert_eq!(volumes.create(&one, "data", 10).unwrap_err().kind, Kind::Conflict);
    assert!(volumes.create(&two, "data", 10).is_ok());
    assert_eq!(volumes.create(&one, "more", 1).unwrap_err().kind, Kind::TooMany);
    assert!(volumes.create(&one, "../x", 10).is_err());
    let again = Volumes::open(state.path(), 1 << 20).unwrap();
    let found = again.find(&one, volume.id()).unwrap();
    assert!(found.token().is(volume.token().expose()));
    assert_eq!(read(&found, "/note").unwrap(), b"kept");
    again.delete(&one, volume.id()).unwrap();
    assert!(!found.dir.exists());
    assert_eq!(Volumes::open(state.path(), 1).unwrap().lock().len(), 1);
}

#[test]
fn what_is_counted_is_what_is_there() {
    let Fixture { volume, _state, .. } = fixture(1 << 20);
    let owner = VolumeOwner::default();
    write(&volume, "/a/b/file", b"12345").unwrap();
    write(&volume, "/a/b/file", b"123").unwrap();
    write(&volume, "/other", b"1").unwrap();
    drop(volume.write("/dropped", owner, false).unwrap());
    volume.make_dir("/x/y/z", owner, true).unwrap();
    volume.make_dir("/x/y/z", owner, true).unwrap();
    assert!(volume.make_dir("/x", owner, false).is_err());
    assert!(volume.make_dir("/no/parent", owner, false).is_err());
    let check = || assert_eq!(*volume.taken(), Some(volume.tree.measure().unwrap()));
    check();
    volume.remove("/a").unwrap();
    check();
    volume.remove("/other").unwrap();
    volume.remove("/x/y").unwrap();
    check();
    assert_eq!(*volume.taken(), Some(Measure { bytes: 0, entries: 1 }));
}
