use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tempfile::TempDir;

use super::*;

const SECOND: Duration = Duration::from_secs(10);

fn digest(bytes: &[u8]) -> Digest {
    Digest::Sha256(Sha256::digest(bytes).into())
}

fn shared(bytes: &[u8]) -> Key {
    Key { scope: Scope::Shared, digest: digest(bytes) }
}

struct Place(TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn open(&self, bytes: u64) -> Cache {
        Cache::open(self.0.path(), Limits { bytes, file_bytes: 64 << 20 }).unwrap()
    }

    fn path(&self, key: &Key) -> PathBuf {
        self.0.path().join(shelf::relative(key))
    }

    fn leftovers(&self) -> usize {
        fs::read_dir(self.0.path().join("tmp")).unwrap().count()
    }
}

fn writer(cache: &Cache, key: Key) -> Box<Writer> {
    match cache.find(key) {
        Found::Missing(writer) => writer,
        other => panic!("{other:?}"),
    }
}

fn keep(cache: &Cache, bytes: &[u8]) -> Key {
    let key = shared(bytes);
    let mut writer = writer(cache, key);
    bytes.chunks(100_000).for_each(|piece| writer.write(piece).unwrap());
    assert_eq!(writer.finish().unwrap(), bytes.len() as u64);
    key
}

fn get(cache: &Cache, key: Key) -> Option<Vec<u8>> {
    let Found::Hit(mut reader) = cache.find(key) else { return None };
    let mut bytes = Vec::new();
    while let Some(piece) = reader.next_piece().unwrap() {
        bytes.extend(piece);
    }
    assert_eq!(bytes.len() as u64, reader.size());
    Some(bytes)
}

/// Larger than what is checked as a whole.
fn large() -> Vec<u8> {
    (0..2_500_000_u32).map(|n| n.to_le_bytes()[(n % 3) as usize]).collect()
}

#[test]
fn what_was_kept_is_found_even_after_a_restart() {
    let place = Place::new();
    let cache = place.open(1 << 30);
    let keys = [keep(&cache, b"wheel"), keep(&cache, b""), keep(&cache, &large())];
    let stats = cache.stats();
    assert_eq!((stats.misses, stats.stored, stats.files), (3, 3, 3));
    drop(cache);
    let cache = place.open(1 << 30);
    assert_eq!(get(&cache, keys[0]).unwrap(), b"wheel");
    assert_eq!(get(&cache, keys[1]).unwrap(), b"");
    assert_eq!(get(&cache, keys[2]).unwrap(), large());
    assert_eq!(cache.size(&keys[0]), Some(5));
    let stats = cache.stats();
    assert_eq!((stats.hits, stats.bytes_saved), (3, 2_500_005));
    assert_eq!(place.leftovers(), 0);
}

#[test]
fn all_algorithms_are_kept_apart() {
    let place = Place::new();
    let cache = place.open(1 << 20);
    let digests = [
        digest(b"x"),
        Digest::Sha384(sha2::Sha384::digest(b"x").into()),
        Digest::Sha512(sha2::Sha512::digest(b"x").into()),
    ];
    for digest in digests {
        let key = Key { scope: Scope::Shared, digest };
        let mut writer = writer(&cache, key);
        writer.write(b"x").unwrap();
        writer.finish().unwrap();
        assert_eq!(get(&cache, key).unwrap(), b"x");
    }
    assert_eq!(cache.stats().files, 3);
}

#[test]
fn a_file_that_was_not_promised_is_not_kept() {
    let place = Place::new();
    let cache = place.open(1 << 20);
    let key = shared(b"the promised file");
    for served in [&b"another file"[..], b"the promised fil", b"", b"the promised file+"] {
        let mut writer = writer(&cache, key);
        writer.write(served).unwrap();
        assert!(matches!(writer.finish(), Err(WriteError::Mismatch { .. })));
        assert_eq!(get(&cache, key), None);
    }
    assert_eq!(cache.stats().mismatched, 4);
    assert_eq!((cache.stats().files, place.leftovers()), (0, 0));
    // A right answer afterwards is kept.
    keep(&cache, b"the promised file");
    assert_eq!(get(&cache, key).unwrap(), b"the promised file");
}

#[test]
fn one_url_with_two_hashes_is_two_files() {
    // Two tenants, or two indexes, promise different bytes for one URL: neither
    // can get, or replace, what the other was promised.
    let place = Place::new();
    let cache = place.open(1 << 20);
    let mine = keep(&cache, b"mine");
    let theirs = keep(&cache, b"theirs");
    assert_eq!(get(&cache, mine).unwrap(), b"mine");
    assert_eq!(get(&cache, theirs).unwrap(), b"theirs");
}

#[test]
fn a_tenants_own_files_are_not_for_others() {
    let place = Place::new();
    let cache = place.open(1 << 20);
    let key = |scope| Key { scope, digest: digest(b"private") };
    let mine = key(Scope::tenant("../../a"));
    let mut writer = writer(&cache, mine);
    writer.write(b"private").unwrap();
    writer.finish().unwrap();
    assert_eq!(get(&cache, mine).unwrap(), b"private");
    assert_eq!(get(&cache, key(Scope::Shared)), None);
    assert_eq!(get(&cache, key(Scope::tenant("b"))), None);
    drop(cache);
    assert_eq!(get(&place.open(1 << 20), mine).unwrap(), b"private");
    assert!(place.path(&mine).starts_with(place.0.path().join("files")));
    assert!(place.path(&mine).is_file());
}

#[test]
fn a_changed_disk_is_a_miss() {
    let place = Place::new();
    let small = b"small".to_vec();
    for (bytes, is_restarted) in [(&small, false), (&small, true), (&large(), true)] {
        let mut cache = place.open(1 << 30);
        let key = keep(&cache, bytes);
        let mut changed = bytes.clone();
        *changed.last_mut().unwrap() ^= 1;
        fs::write(place.path(&key), &changed).unwrap();
        if is_restarted {
            drop(cache);
            cache = place.open(1 << 30);
        }
        assert_eq!(get(&cache, key), None);
        assert_eq!((cache.stats().tampered, cache.stats().files), (1, 0));
        assert!(!place.path(&key).exists());
        // Fetched again, it is there again.
        keep(&cache, bytes);
        assert_eq!(get(&cache, key).as_ref(), Some(bytes));
        fs::write(place.path(&key), &bytes[1..]).unwrap();
        assert_eq!(get(&cache, key), None);
    }
}

#[test]
fn a_large_file_that_changes_while_in_use_never_ends_well() {
    let place = Place::new();
    let cache = place.open(1 << 30);
    let bytes = large();
    let key = keep(&cache, &bytes);
    let Found::Hit(mut reader) = cache.find(key) else { panic!("not kept") };
    assert!(reader.next_piece().unwrap().is_some());
    let mut changed = bytes.clone();
    *changed.last_mut().unwrap() ^= 1;
    fs::write(place.path(&key), &changed).unwrap();
    let mut passed = 0;
    let error = loop {
        match reader.next_piece() {
            Ok(Some(piece)) => passed += piece.len(),
            Ok(None) => panic!("the wrong file was passed on"),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, ReadError::Damaged) && passed < bytes.len());
    assert!(matches!(cache.find(key), Found::Missing(_)));
    assert_eq!(cache.stats().tampered, 1);
}

#[test]
fn a_link_in_the_cache_is_not_followed() {
    let place = Place::new();
    let cache = place.open(1 << 20);
    let key = keep(&cache, b"wheel");
    let elsewhere = place.0.path().join("elsewhere");
    fs::rename(place.path(&key), &elsewhere).unwrap();
    symlink(&elsewhere, place.path(&key)).unwrap();
    assert_eq!(get(&cache, key), None);
    assert!(elsewhere.exists());
}

#[test]
fn the_least_recently_used_make_room() {
    let place = Place::new();
    let cache = place.open(3 * 4096);
    let keys = [&b"a"[..], b"b", b"c"].map(|bytes| keep(&cache, bytes));
    assert!(get(&cache, keys[0]).is_some());
    let fourth = keep(&cache, b"d");
    assert_eq!(get(&cache, keys[1]), None);
    assert!(!place.path(&keys[1]).exists());
    for key in [keys[0], keys[2], fourth] {
        assert!(get(&cache, key).is_some());
    }
    let stats = cache.stats();
    assert_eq!((stats.evicted, stats.files, stats.bytes), (1, 3, 3 * 4096));
}

#[test]
fn a_smaller_bound_holds_from_the_start() {
    let place = Place::new();
    let cache = place.open(1 << 20);
    for n in 0..10_u8 {
        keep(&cache, &[n]);
    }
    drop(cache);
    assert_eq!(place.open(4 * 4096).stats().files, 4);
}

#[test]
fn files_that_are_being_written_count_too() {
    let place = Place::new();
    let cache = place.open(4 * 4096);
    let key = keep(&cache, b"old");
    let mut first = writer(&cache, shared(b"1"));
    first.write(&[0; 3 * 4096]).unwrap();
    assert!(cache.size(&key).is_some());
    let mut second = writer(&cache, shared(b"2"));
    second.write(&[0; 4096]).unwrap();
    assert!(cache.size(&key).is_none(), "the old file made room");
    assert!(matches!(second.write(&[0; 1]), Err(WriteError::Full)));
    drop((first, second));
    assert_eq!(place.leftovers(), 0);
    keep(&cache, &[1; 4 * 4096]);
}

#[test]
fn a_file_beyond_the_bound_is_given_up() {
    let place = Place::new();
    let cache = Cache::open(place.0.path(), Limits { bytes: 1 << 20, file_bytes: 10 }).unwrap();
    let mut writer = writer(&cache, shared(&[7; 11]));
    writer.write(&[7; 10]).unwrap();
    assert!(matches!(writer.write(&[7]), Err(WriteError::TooLarge(10))));
    drop(writer);
    assert_eq!((place.leftovers(), cache.stats().too_large), (0, 1));
}

#[test]
fn one_fetches_and_the_others_wait() {
    let place = Place::new();
    let cache = place.open(1 << 20);
    let key = shared(b"wanted by all");
    let mut writer = writer(&cache, key);
    let waiting: Vec<_> = (0..8)
        .map(|_| match cache.find(key) {
            Found::Busy(waiting) => waiting,
            other => panic!("{other:?}"),
        })
        .collect();
    let threads: Vec<_> = waiting
        .into_iter()
        .map(|waiting| {
            let cache = cache.clone();
            std::thread::spawn(move || {
                assert!(waiting.wait(SECOND));
                get(&cache, key)
            })
        })
        .collect();
    writer.write(b"wanted by all").unwrap();
    writer.finish().unwrap();
    for thread in threads {
        assert_eq!(thread.join().unwrap().unwrap(), b"wanted by all");
    }
    assert_eq!((cache.stats().joined, cache.stats().stored), (8, 1));
}

#[test]
fn when_a_fetch_fails_the_next_one_tries() {
    let place = Place::new();
    let cache = place.open(1 << 20);
    let key = shared(b"x");
    let first = writer(&cache, key);
    let Found::Busy(waiting) = cache.find(key) else { panic!("not busy") };
    let mut waiting = pin!(waiting);
    let mut context = Context::from_waker(Waker::noop());
    assert_eq!(waiting.as_mut().poll(&mut context), Poll::Pending);
    drop(first);
    assert_eq!(waiting.as_mut().poll(&mut context), Poll::Ready(()));
    assert!(matches!(cache.find(key), Found::Missing(_)));
}

#[test]
fn nobody_has_to_wait_for_long() {
    let place = Place::new();
    let cache = place.open(1 << 20);
    let _slow = writer(&cache, shared(b"x"));
    let Found::Busy(waiting) = cache.find(shared(b"x")) else { panic!("not busy") };
    assert!(!waiting.wait(Duration::from_millis(1)));
}

#[test]
fn leftovers_are_removed_and_strangers_left_alone() {
    let place = Place::new();
    let key = keep(&place.open(1 << 20), b"wheel");
    let stranger = place.path(&key).with_file_name("..readme");
    fs::write(&stranger, "").unwrap();
    let wrong = place.path(&key).with_file_name("ff".repeat(32));
    fs::write(&wrong, "in the wrong folder").unwrap();
    fs::write(place.0.path().join("tmp/0"), "half").unwrap();
    let cache = place.open(1 << 20);
    assert_eq!((cache.stats().files, place.leftovers()), (1, 0));
    assert!(stranger.exists() && wrong.exists());
    let mut writer = writer(&cache, shared(b"y"));
    writer.write(b"y").unwrap();
    writer.finish().unwrap();
}

#[test]
fn a_second_process_is_refused() {
    let place = Place::new();
    let _cache = place.open(1 << 20);
    let again = Cache::open(place.0.path(), Limits::default());
    assert!(matches!(again, Err(OpenError::InUse(_))));
}
