use belljar_cassette::{Limits, RecordError, RequestError};

use crate::ask::{World, get, post};

fn push(world: &World, kind: &str, bytes: usize) -> Result<(), RecordError> {
    let begun = world.recorder().begin(&get("https://a.org/").view())?;
    let mut exchange = begun.answer(200, &[("content-type", kind.as_bytes())])?;
    for _ in 0..bytes / 10 {
        exchange.push(b"0123456789")?;
    }
    exchange.finish().map(drop)
}

#[test]
fn an_exchange_has_a_size() {
    let world = World::with(Limits { exchange_bytes: 100, held_bytes: 50, ..Limits::default() });
    push(&world, "application/zip", 100).unwrap();
    let error = push(&world, "application/zip", 110).unwrap_err();
    assert!(matches!(error, RecordError::ExchangeTooLarge));
    // What must be held in memory has a smaller one.
    push(&world, "application/json", 50).unwrap();
    let error = push(&world, "application/json", 60).unwrap_err();
    assert!(matches!(error, RecordError::ExchangeTooLarge));
    let error = world.recorder().begin(&post("https://a.org/", &[0; 51]).view()).unwrap_err();
    assert!(matches!(error, RecordError::Request(RequestError::TooLarge)));
}

#[test]
fn a_cassette_has_a_size_and_what_was_dropped_does_not_count() {
    let world = World::with(Limits { cassette_bytes: 100, ..Limits::default() });
    let recorder = world.recorder();
    for _ in 0..3 {
        let begun = recorder.begin(&post("https://a.org/", &[b'x'; 30]).view()).unwrap();
        let mut exchange = begun.answer(200, &[]).unwrap();
        exchange.push(&[b'y'; 60]).unwrap();
    }
    drop(recorder);
    push(&world, "application/zip", 90).unwrap();
    // Also counted by the next recorder.
    assert!(matches!(push(&world, "application/zip", 20), Err(RecordError::CassetteFull)));
    push(&world, "application/zip", 10).unwrap();
    assert_eq!(world.tenant().list().unwrap()[0].bytes, 100);
}

#[test]
fn a_cassette_has_a_number_of_exchanges() {
    let world = World::with(Limits { exchanges: 2, ..Limits::default() });
    push(&world, "text/plain", 10).unwrap();
    push(&world, "text/plain", 10).unwrap();
    assert!(matches!(push(&world, "text/plain", 10), Err(RecordError::CassetteFull)));
}

#[test]
fn what_grows_when_it_is_unpacked_is_bounded() {
    let world = World::with(Limits { held_bytes: 1 << 20, ..Limits::default() });
    let bomb = zstd::encode_all(vec![0; 100 << 20].as_slice(), 3).unwrap();
    let begun = world.recorder().begin(&get("https://a.org/").view()).unwrap();
    let mut exchange = begun.answer(200, &[("content-encoding", b"zstd")]).unwrap();
    exchange.push(&bomb).unwrap();
    assert!(matches!(exchange.finish(), Err(RecordError::ExchangeTooLarge)));
}

#[test]
fn headers_that_do_not_fit_are_refused() {
    let world = World::new();
    let begun = world.recorder().begin(&get("https://a.org/").view()).unwrap();
    let exchange = begun.answer(200, &[("x-long", &[b'a'; 2 << 20])]).unwrap();
    assert!(matches!(exchange.finish(), Err(RecordError::Unfit)));
    assert_eq!(get("https://a.org/").missed(&world.player()).recorded, 0);
}

#[test]
fn what_is_held_at_the_same_time_is_bounded() {
    let world = World::with(Limits { memory_bytes: 25, ..Limits::default() });
    let recorder = world.recorder();
    let begin = |kind: &'static str| {
        let begun = recorder.begin(&post("https://a.org/", b"0123456789").view());
        begun.and_then(|begun| begun.answer(200, &[("content-type", kind.as_bytes())]))
    };
    let mut first = begin("application/json").unwrap();
    let mut second = begin("application/zip").unwrap();
    assert!(matches!(begin("application/zip"), Err(RecordError::Memory)));
    first.push(b"12345").unwrap();
    assert!(matches!(first.push(b"6"), Err(RecordError::Memory)));
    // A download goes through without being held.
    second.push(&[0; 1000]).unwrap();
    second.finish().unwrap();
    drop(first);
    begin("application/json").unwrap().push(b"0123456789").unwrap();
}
