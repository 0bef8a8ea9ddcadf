//! Requirements: N5

use std::io::Write as _;
use std::time::Duration;

use belljar_cassette::{After, End, Playback, RecordError, Redactor};

use crate::ask::{World, body, get, id, post, say};

#[test]
fn what_was_recorded_is_played() {
    let world = World::new();
    let entry = get("https://a.org/x?y=1").with("accept", "*/*").gets_with(
        &world.recorder(),
        404,
        &[("Content-Type", "text/plain"), ("X-Two", "1"), ("x-two", "2"), ("Connection", "close")],
        b"not here",
    );
    assert_eq!(entry.answer.status, 404);
    let played = get("https://a.org/x?y=1").with("Accept", "*/*").found(&world.player());
    assert_eq!((played.status, played.bytes, played.end), (404, 8, End::Whole));
    let headers: Vec<_> = played
        .headers
        .iter()
        .map(|(name, value)| (name.as_str(), str::from_utf8(value).unwrap()))
        .collect();
    assert_eq!(headers, [("content-type", "text/plain"), ("x-two", "1"), ("x-two", "2")]);
    assert_eq!(body(played), "not here");
}

#[test]
fn a_stream_is_played_as_the_stream_it_was() {
    let world = World::new();
    let begun = world.recorder().begin(&say("{}").view()).unwrap();
    let mut exchange = begun.answer(200, &[("content-type", b"text/event-stream")]).unwrap();
    let pieces: [(u64, &[u8]); 4] =
        [(300, b"event: a\n"), (300, b"data: 1\n\n"), (420, b""), (500, b"data: 2\n\n")];
    for (millis, piece) in pieces {
        exchange.push_at(Duration::from_millis(millis), piece).unwrap();
    }
    exchange.finish().unwrap();
    let heard: Vec<_> = say("{}")
        .found(&world.player())
        .pieces
        .map(Result::unwrap)
        .map(|piece| (piece.delay.as_millis(), String::from_utf8(piece.data).unwrap()))
        .collect();
    let want = [(300, "event: a\n"), (0, "data: 1\n\n"), (200, "data: 2\n\n")];
    assert_eq!(heard, want.map(|(delay, text)| (delay, text.to_owned())));
}

#[test]
fn pieces_of_a_stream_fit_after_a_secret_was_cut_out_between_them() {
    let world = World::new();
    let begun = world.recorder().begin(&say("{}").view()).unwrap();
    let mut exchange = begun.answer(200, &[("content-type", b"text/event-stream")]).unwrap();
    for (millis, piece) in [
        (1, "data: {\"password\":\"one "),
        (2, "two "),
        (3, "three\",\"x\":1}\n\n"),
        (4, "data: end\n\n"),
    ] {
        exchange.push_at(Duration::from_millis(millis), piece.as_bytes()).unwrap();
    }
    exchange.finish().unwrap();
    let heard: Vec<_> = say("{}")
        .found(&world.player())
        .pieces
        .map(Result::unwrap)
        .map(|piece| (piece.delay.as_millis(), String::from_utf8(piece.data).unwrap()))
        .collect();
    let want =
        [(1, "data: {\"password\":\"_redacted_"), (2, "\",\"x\":1}\n\n"), (1, "data: end\n\n")];
    assert_eq!(heard, want.map(|(delay, text)| (delay, text.to_owned())));
}

#[test]
fn a_download_has_few_pieces_and_all_its_bytes() {
    let world = World::new();
    let content: Vec<u8> =
        (0..9_000_000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let begun = world.recorder().begin(&get("https://a.org/big").view()).unwrap();
    let mut exchange = begun.answer(200, &[]).unwrap();
    for (number, piece) in content.chunks(10_000).enumerate() {
        // One pause in the middle, longer than a network's jitter.
        let pause = if number >= 450 { 2000 } else { 0 };
        exchange.push_at(Duration::from_millis(number as u64 + pause), piece).unwrap();
    }
    exchange.finish().unwrap();
    let played = get("https://a.org/big").found(&world.player());
    assert_eq!(played.bytes, 9_000_000);
    let (mut heard, mut delays) = (Vec::new(), 0);
    for piece in played.pieces.map(Result::unwrap) {
        assert!(!piece.data.is_empty() && piece.data.len() <= 65_536);
        delays += usize::from(!piece.delay.is_zero());
        heard.extend(piece.data);
    }
    assert!(heard == content);
    assert_eq!(delays, 1);
}

#[test]
fn a_retry_hears_first_the_failure_and_then_the_success() {
    let world = World::new();
    let recorder = world.recorder();
    let ask = get("https://a.org/");
    ask.gets_with(&recorder, 503, &[], b"later");
    ask.gets_with(&recorder, 200, &[], b"now");
    let player = world.player();
    assert_eq!(player.unplayed(), 2);
    let heard = |_| {
        let played = ask.found(&player);
        (played.status, played.repeated, played.number, body(played))
    };
    let heard: Vec<_> = (0..4).map(heard).collect();
    let again = (200, true, 1, "now".to_owned());
    assert_eq!(
        heard,
        [(503, false, 0, "later".into()), (200, false, 1, "now".into()), again.clone(), again]
    );
    assert_eq!(player.unplayed(), 0);
}

#[test]
fn after_the_last_time_there_can_be_a_miss_instead() {
    let world = World::new();
    get("https://a.org/").gets(&world.recorder(), "text/plain", b"once");
    let playback = Playback { after: After::Miss, ..Playback::default() };
    let player = world.tenant().play(&id("a"), Redactor::by_name(), playback).unwrap();
    assert_eq!(get("https://a.org/").heard(&player), "once");
    let miss = get("https://a.org/").missed(&player);
    assert_eq!(miss.nearest.as_ref().unwrap().differs, []);
    assert!(miss.to_string().ends_with("have been played"), "{miss}");
}

#[test]
fn an_answer_that_broke_off_breaks_off_again() {
    let world = World::new();
    let begun = world.recorder().begin(&get("https://a.org/").view()).unwrap();
    let mut exchange = begun.answer(200, &[("content-length", b"100")]).unwrap();
    exchange.push(b"half").unwrap();
    exchange.abort().unwrap();
    let played = get("https://a.org/").found(&world.player());
    assert_eq!(played.end, End::Broken);
    assert_eq!(played.headers, [("content-length".to_owned(), b"100".to_vec())]);
    assert_eq!(body(played), "half");
}

#[test]
fn an_exchange_that_is_dropped_leaves_nothing() {
    let world = World::new();
    let recorder = world.recorder();
    let begun = recorder.begin(&get("https://a.org/").view()).unwrap();
    let mut exchange = begun.answer(200, &[]).unwrap();
    exchange.push(b"half").unwrap();
    drop(exchange);
    drop(recorder.begin(&get("https://a.org/").view()).unwrap());
    assert_eq!(get("https://a.org/").missed(&world.player()).recorded, 0);
    drop(recorder);
    assert_eq!(world.tenant().sweep().unwrap(), Some(0));
}

#[test]
fn redirects_ranges_and_heads_are_exchanges_of_their_own() {
    let world = World::new();
    let recorder = world.recorder();
    let url = "https://a.org/f";
    get(url).gets_with(
        &recorder,
        302,
        &[("location", "https://b.org/f?sig=0123456789abcdef")],
        b"",
    );
    get("https://b.org/f?sig=0123456789abcdef").gets(&recorder, "application/zip", b"abcdef");
    let part = [("content-range", "bytes 0-2/6")];
    get(url).with("range", "bytes=0-2").gets_with(&recorder, 206, &part, b"abc");
    get(url).by("HEAD").gets_with(&recorder, 200, &[("content-length", "6")], b"");
    let player = world.player();

    let redirect = get(url).found(&player);
    assert_eq!(redirect.status, 302);
    let location = String::from_utf8(redirect.headers[0].1.clone()).unwrap();
    assert_eq!(location, "https://b.org/f?sig=_redacted_");
    assert_eq!(get(&location).heard(&player), "abcdef");
    assert_eq!(get(url).with("Range", "bytes=0-2").found(&player).status, 206);
    let miss = get(url).with("range", "bytes=0-3").missed(&player);
    assert_eq!(miss.nearest.unwrap().differs.len(), 1);
    let head = get(url).by("HEAD").found(&player);
    assert_eq!(head.headers, [("content-length".to_owned(), b"6".to_vec())]);
    assert_eq!(body(head), "");
}

#[test]
fn an_encoded_answer_is_kept_plain() {
    let world = World::new();
    let recorder = world.recorder();
    let mut encoder = flate2::write::GzEncoder::new(vec![], flate2::Compression::fast());
    encoder.write_all(br#"{"access_token":"abc","x":1}"#).unwrap();
    let gzip = encoder.finish().unwrap();
    let length = gzip.len().to_string();
    let headers = [
        ("content-encoding", "gzip"),
        ("content-length", length.as_str()),
        ("content-type", "application/json"),
    ];
    get("https://a.org/").gets_with(&recorder, 200, &headers, &gzip);
    let played = get("https://a.org/").found(&world.player());
    let want = r#"{"access_token":"_redacted_","x":1}"#;
    assert_eq!(played.headers[0], ("content-length".to_owned(), want.len().to_string().into()));
    assert_eq!(played.headers.len(), 2);
    assert_eq!(body(played), want);

    // What cannot be looked into is not kept.
    let begun = recorder.begin(&get("https://a.org/b").view()).unwrap();
    let mut exchange = begun.answer(200, &[("content-encoding", b"br")]).unwrap();
    exchange.push(b"abc").unwrap();
    assert!(matches!(exchange.finish(), Err(RecordError::Encoding(name)) if name == "br"));
    assert_eq!(get("https://a.org/b").missed(&world.player()).recorded, 1);
}

#[test]
fn what_was_recorded_after_a_miss_is_known_from_then_on() {
    let world = World::new();
    let recorder = world.recorder();
    get("https://a.org/1").gets(&recorder, "text/plain", b"one");
    let player = world.player();
    get("https://a.org/2").missed(&player);
    let entry = get("https://a.org/2").gets(&recorder, "text/plain", b"two");
    player.learn(entry).unwrap();
    assert_eq!(get("https://a.org/2").heard(&player), "two");
}

#[test]
fn exchanges_of_one_recorder_may_overlap() {
    let world = World::new();
    let recorder = world.recorder();
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let recorder = recorder.clone();
            scope.spawn(move || {
                for number in 0..20 {
                    let content = format!("{thread} {number}");
                    post("https://a.org/", content.as_bytes()).gets(
                        &recorder,
                        "text/plain",
                        content.as_bytes(),
                    );
                }
            });
        }
    });
    let player = world.player();
    for thread in 0..8 {
        for number in 0..20 {
            let content = format!("{thread} {number}");
            assert_eq!(post("https://a.org/", content.as_bytes()).heard(&player), content);
        }
    }
    assert_eq!(player.unplayed(), 0);
}

#[test]
fn tenants_share_nothing() {
    let world = World::new();
    get("https://a.org/").gets(&world.recorder(), "text/plain", b"mine");
    let other = world.store.tenant("other");
    assert!(other.play(&id("a"), Redactor::by_name(), Playback::default()).is_err());
    assert_eq!(other.list().unwrap(), []);
    let recorder = other.record(&id("a"), Redactor::by_name()).unwrap();
    get("https://a.org/").gets(&recorder, "text/plain", b"mine");
    drop(recorder);
    // Each has its own copy: removing one's leaves the other's.
    assert!(other.remove(&id("a")).unwrap());
    assert_eq!(get("https://a.org/").heard(&world.player()), "mine");
}

#[test]
fn everything_can_go_from_thread_to_thread() {
    fn check<T: Send>() {}
    fn check_shared<T: Send + Sync>() {}
    check::<belljar_cassette::Exchange>();
    check::<belljar_cassette::Played>();
    check_shared::<belljar_cassette::Player>();
    check_shared::<belljar_cassette::Recorder>();
}
