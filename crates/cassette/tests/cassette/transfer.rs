use std::io::Write as _;

use belljar_cassette::{BlobError, Digest, IndexError, Limits, Playback, Redactor, TransferError};
use tar::{Builder, EntryType, Header};

use crate::ask::{World, get, id, say};

fn exported() -> Vec<u8> {
    let world = World::new();
    let recorder = world.recorder();
    get("https://a.org/f").gets(&recorder, "application/zip", b"content");
    say(r#"{"b":1,"a":2}"#).gets(&recorder, "application/json", b"{}");
    let begun = recorder.begin(&get("https://a.org/s").view()).unwrap();
    let mut exchange = begun.answer(200, &[("content-type", b"text/event-stream")]).unwrap();
    exchange.push_at(std::time::Duration::from_secs(1), b"data: 1\n\n").unwrap();
    exchange.push_at(std::time::Duration::from_secs(2), b"data: 2\n\n").unwrap();
    exchange.finish().unwrap();
    drop(recorder);
    let (mut one, mut two) = (vec![], vec![]);
    world.tenant().export(&id("a"), &mut one).unwrap();
    world.tenant().export(&id("a"), &mut two).unwrap();
    assert_eq!(one, two);
    one
}

#[test]
fn a_cassette_goes_from_one_store_to_another() {
    let world = World::new();
    let tenant = world.tenant();
    let summary = tenant.import(&id("b"), exported().as_slice()).unwrap();
    assert_eq!((summary.exchanges, summary.bytes), (3, 7 + 13 + 2 + 18));
    assert_eq!(tenant.list().unwrap(), [summary]);
    assert_eq!(tenant.verify(&id("b")).unwrap().problems, []);
    let player = tenant.play(&id("b"), Redactor::by_name(), Playback::default()).unwrap();
    assert_eq!(get("https://a.org/f").heard(&player), "content");
    assert_eq!(say(r#"{"a":2,"b":1}"#).heard(&player), "{}");
    assert_eq!(get("https://a.org/s").found(&player).pieces.count(), 2);
    drop(player);
    let mut again = vec![];
    tenant.export(&id("b"), &mut again).unwrap();
    assert_eq!(again, exported());
    assert!(matches!(
        tenant.import(&id("b"), exported().as_slice()),
        Err(TransferError::Exists(_))
    ));
}

type File = (String, EntryType, Vec<u8>);

/// An archive of files as given.
fn archive(files: &[(&str, EntryType, &[u8])]) -> Vec<u8> {
    let mut archive = Builder::new(zstd::Encoder::new(vec![], 1).unwrap());
    for (name, kind, content) in files {
        let mut header = Header::new_ustar();
        // Past the checks of the writer.
        header.as_mut_bytes()[..name.len()].copy_from_slice(name.as_bytes());
        header.set_size(content.len() as u64);
        header.set_entry_type(*kind);
        header.set_mode(0o644);
        header.set_cksum();
        archive.append(&header, *content).unwrap();
    }
    archive.into_inner().unwrap().finish().unwrap()
}

fn files() -> Vec<File> {
    use std::io::Read as _;
    let plain = zstd::decode_all(exported().as_slice()).unwrap();
    let mut archive = tar::Archive::new(plain.as_slice());
    let files = archive.entries().unwrap().map(|file| {
        let mut file = file.unwrap();
        let mut content = vec![];
        file.read_to_end(&mut content).unwrap();
        (file.path().unwrap().to_str().unwrap().to_owned(), EntryType::Regular, content)
    });
    files.collect()
}

fn import(files: &[File]) -> Result<(), TransferError> {
    let files: Vec<_> = files
        .iter()
        .map(|(name, kind, content)| (name.as_str(), *kind, content.as_slice()))
        .collect();
    let world = World::new();
    let outcome = world.tenant().import(&id("b"), archive(&files).as_slice());
    if outcome.is_err() {
        assert_eq!(world.tenant().list().unwrap(), []);
        // Nothing is left of it.
        assert_eq!(world.tenant().sweep().unwrap(), Some(0));
        let tapes = std::fs::read_dir(world.folder.path()).unwrap().count();
        assert_eq!(tapes, 1);
    }
    outcome.map(drop)
}

#[test]
fn only_what_belongs_into_a_cassette_is_read() {
    import(&files()).unwrap();
    let digest = Digest::of(b"x");
    for name in [
        "../index.jsonl".to_owned(),
        "/etc/passwd".into(),
        "blobs/../../x".into(),
        format!("./blobs/{digest}"),
        format!("blobs/{}", digest.to_string().to_uppercase()),
        format!("blobs/{digest}.zst"),
        "lock".into(),
        "index.jsonl/".into(),
        String::new(),
    ] {
        let mut all = files();
        all.insert(0, (name.clone(), EntryType::Regular, b"x".to_vec()));
        assert!(matches!(import(&all), Err(TransferError::Name(_))), "{name}");
    }
    for kind in [
        EntryType::Symlink,
        EntryType::Link,
        EntryType::Directory,
        EntryType::Fifo,
        EntryType::GNULongName,
        EntryType::XHeader,
        EntryType::GNUSparse,
        EntryType::Char,
    ] {
        let mut all = files();
        all[0].1 = kind;
        assert!(import(&all).is_err(), "{kind:?}");
    }
}

#[test]
fn everything_in_an_archive_is_checked() {
    let changed = |change: fn(&mut Vec<File>)| {
        let mut all = files();
        change(&mut all);
        import(&all)
    };
    // A blob that is not what it is called.
    let outcome = changed(|all| all[0].2.push(b'x'));
    assert!(matches!(outcome, Err(TransferError::Blob(BlobError::Damaged(_)))), "{outcome:?}");
    // One too few, one too many, one twice, one after the index, no index.
    assert!(matches!(changed(|all| drop(all.remove(0))), Err(TransferError::Incomplete)));
    let outcome = changed(|all| {
        let name = format!("blobs/{}", Digest::of(b"x"));
        all.insert(0, (name, EntryType::Regular, b"x".to_vec()));
    });
    assert!(matches!(outcome, Err(TransferError::Incomplete)), "{outcome:?}");
    assert!(matches!(changed(|all| all.insert(0, all[0].clone())), Err(TransferError::Name(_))));
    assert!(matches!(changed(|all| all.push(all[0].clone())), Err(TransferError::Name(_))));
    assert!(matches!(changed(|all| drop(all.pop())), Err(TransferError::Incomplete)));
    // An index that is torn, or says what is not so.
    let torn = changed(|all| all.last_mut().unwrap().2.truncate(10));
    assert!(matches!(torn, Err(TransferError::Index(_))), "{torn:?}");
    let lies = changed(|all| {
        let index = &mut all.last_mut().unwrap().2;
        let text = String::from_utf8(index.clone()).unwrap();
        let (canonical, other) = (Digest::of(br#"{"a":2,"b":1}"#), Digest::of(b"other"));
        assert!(text.contains(&canonical.to_string()));
        *index = text.replace(&canonical.to_string(), &other.to_string()).into();
    });
    assert!(matches!(lies, Err(TransferError::Request(1))), "{lies:?}");
    let length = changed(|all| {
        let index = &mut all.last_mut().unwrap().2;
        *index =
            String::from_utf8(index.clone()).unwrap().replace("\"bytes\":7", "\"bytes\":8").into();
    });
    assert!(matches!(length, Err(TransferError::Incomplete)), "{length:?}");
}

#[test]
fn an_archive_that_is_cut_or_none_is_refused() {
    let whole = exported();
    let world = World::new();
    for end in [0, 1, 10, whole.len() / 2, whole.len() - 5] {
        assert!(world.tenant().import(&id("b"), &whole[..end]).is_err(), "{end}");
    }
    assert!(world.tenant().import(&id("b"), b"not an archive at all".as_slice()).is_err());
    world.tenant().import(&id("b"), whole.as_slice()).unwrap();
}

#[test]
fn an_archive_is_bounded_before_it_is_unpacked() {
    // A bomb: a hundred megabytes of nothing in a few kilobytes.
    let mut encoder = zstd::Encoder::new(vec![], 3).unwrap();
    let mut header = Header::new_ustar();
    header.set_path(format!("blobs/{}", Digest::of(b"x"))).unwrap();
    header.set_size(100 << 20);
    header.set_cksum();
    encoder.write_all(header.as_bytes()).unwrap();
    encoder.write_all(&vec![0; 100 << 20]).unwrap();
    let bomb = encoder.finish().unwrap();
    for limits in [
        Limits { exchange_bytes: 10 << 20, ..Limits::default() },
        Limits { cassette_bytes: 10 << 20, ..Limits::default() },
    ] {
        let world = World::with(limits);
        let outcome = world.tenant().import(&id("b"), bomb.as_slice());
        assert!(matches!(outcome, Err(TransferError::TooLarge)), "{outcome:?}");
    }
    let world = World::with(Limits { cassette_bytes: 39, ..Limits::default() });
    let outcome = world.tenant().import(&id("b"), exported().as_slice());
    assert!(matches!(outcome, Err(TransferError::TooLarge)), "{outcome:?}");
    let world = World::with(Limits { exchanges: 2, ..Limits::default() });
    let outcome = world.tenant().import(&id("b"), exported().as_slice());
    assert!(matches!(outcome, Err(TransferError::TooLarge)), "{outcome:?}");
}

#[test]
fn a_line_without_end_is_not_read_to_its_end() {
    let line = vec![b' '; 64 << 20];
    let bomb = archive(&[("index.jsonl", EntryType::Regular, &line)]);
    let outcome = World::new().tenant().import(&id("b"), bomb.as_slice());
    let Err(TransferError::Index(IndexError::Line(1))) = outcome else { panic!("{outcome:?}") };
}

/// A failed import takes its own content along, also while another cassette is in use, and takes
/// nothing of other cassettes.
#[test]
fn a_failed_import_leaves_nothing_beside_a_recorder() {
    let world = World::new();
    let tenant = world.tenant();
    tenant.import(&id("b"), exported().as_slice()).unwrap();
    let recorder = world.recorder();
    let before = size_of(world.folder.path());
    let whole = exported();
    for _ in 0..3 {
        assert!(tenant.import(&id("c"), &whole[..whole.len() - 5]).is_err());
        assert!(!tenant.has(&id("c")));
    }
    // All that it names is there, and the archive has more.
    let mut more = files();
    more.insert(0, (format!("blobs/{}", Digest::of(b"x")), EntryType::Regular, b"x".to_vec()));
    let more: Vec<_> = more.iter().map(|(n, k, c)| (n.as_str(), *k, c.as_slice())).collect();
    let outcome = tenant.import(&id("c"), archive(&more).as_slice());
    assert!(matches!(outcome, Err(TransferError::Incomplete)), "{outcome:?}");
    assert_eq!(size_of(world.folder.path()), before);
    assert_eq!(tenant.verify(&id("b")).unwrap().problems, []);
    drop(recorder);
}

#[test]
fn a_cassette_that_is_replaced_stays_if_the_archive_is_refused() {
    let world = World::new();
    let recorder = world.recorder();
    get("https://a.org/old").gets(&recorder, "text/plain", b"old");
    drop(recorder);
    let tenant = world.tenant();
    assert!(tenant.replace(&id("a"), b"no archive".as_slice()).is_err());
    assert_eq!(get("https://a.org/old").heard(&world.player()), "old");
    // A cassette that is being recorded is not replaced.
    let recorder = world.recorder();
    assert!(tenant.replace(&id("a"), exported().as_slice()).is_err());
    drop(recorder);
    let player = world.player();
    assert_eq!(tenant.replace(&id("a"), exported().as_slice()).unwrap().exchanges, 3);
    // The one before is played to its end.
    assert_eq!(get("https://a.org/old").heard(&player), "old");
    drop(player);
    assert_eq!(get("https://a.org/f").heard(&world.player()), "content");
}

/// A cassette that was removed while something of its tenant was in use goes as soon as nothing is.
#[test]
fn what_could_not_be_swept_is_swept_later() {
    let world = World::new();
    let tenant = world.tenant();
    tenant.import(&id("b"), exported().as_slice()).unwrap();
    let recorder = world.recorder();
    assert!(tenant.remove(&id("b")).unwrap());
    assert_eq!(world.store.sweep_overdue().unwrap(), 0, "a recorder is there");
    drop(recorder);
    assert!(world.store.sweep_overdue().unwrap() > 0);
    assert_eq!(world.store.sweep_overdue().unwrap(), 0);
    assert_eq!(tenant.sweep().unwrap(), Some(0));
}

#[test]
fn the_disk_of_a_tenant_is_bounded() {
    let world = World::with(Limits { tenant_bytes: 8000, ..Limits::default() });
    let tenant = world.tenant();
    let mut outcomes = (0..100)
        .map(|number| tenant.import(&id(&format!("c{number}")), exported().as_slice()).map(drop));
    let refused = outcomes.find_map(Result::err);
    assert!(matches!(refused, Some(TransferError::TenantFull)), "{refused:?}");
    assert!(size_of(world.folder.path()) <= 8000);
    // Another tenant has room.
    world.store.tenant("other").import(&id("a"), exported().as_slice()).unwrap();
}

fn size_of(folder: &std::path::Path) -> u64 {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    let size = |entry: std::fs::DirEntry| match entry.metadata().unwrap() {
        metadata if metadata.is_dir() => size_of(&entry.path()),
        metadata => metadata.len(),
    };
    entries.map(size).sum()
}
