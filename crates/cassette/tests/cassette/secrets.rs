//! Nothing that is stored holds a secret.
//!
//! Requirements: G1

use std::fs;
use std::path::Path;

use belljar_cassette::{Names, Playback, Redactor, Secret};

use crate::ask::{World, get, id, post, say};

const KNOWN: &str = "sk-ant-KnownCanary/0123456789+x";

/// Every byte below a folder, names included, blobs unpacked.
fn everything(folder: &Path) -> Vec<u8> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        all.extend_from_slice(path.as_os_str().as_encoded_bytes());
        all.push(b'\n');
        if path.is_dir() {
            all.extend(everything(&path));
            continue;
        }
        let content = fs::read(&path).unwrap();
        if path.extension().is_some_and(|extension| extension == "zst") {
            all.extend(zstd::decode_all(content.as_slice()).unwrap());
        }
        all.extend(content);
    }
    all
}

fn has(all: &[u8], text: &str) -> bool {
    all.windows(text.len()).any(|window| window.eq_ignore_ascii_case(text.as_bytes()))
}

#[test]
fn no_canary_is_in_any_stored_byte() {
    use base64::Engine as _;
    let world = World::new();
    let redactor = Redactor::new(Names::default(), &[Secret::new(KNOWN)]).unwrap();
    let recorder = world.tenant().record(&id("a"), redactor.clone()).unwrap();
    let basic = base64::engine::general_purpose::STANDARD.encode(format!("user:{KNOWN}"));
    let by_value = format!("x-note: {KNOWN}");
    let json = format!(
        r#"{{"api_key":"canary-a","nested":{{"password":"canary-b"}},"text":"it is {KNOWN}","basic":"{basic}"}}"#
    );
    let ask = say(&json)
        .with("authorization", "Bearer canary-c")
        .with("cookie", "sid=canary-d")
        .with("x-api-key", "canary-e")
        .with("x-note", &by_value)
        .with("referer", "https://a.org/?access_token=canary-f");
    let answer = format!("data: {{\"refresh_token\":\"canary-g\"}}\n\ndata: {KNOWN}\n\n");
    let begun = recorder.begin(&ask.view()).unwrap();
    let headers: [(&str, &[u8]); 4] = [
        ("content-type", b"text/event-stream"),
        ("set-cookie", b"sid=canary-h; Path=/"),
        ("location", b"/next?token=canary-i-0123456789"),
        ("x-echo", KNOWN.as_bytes()),
    ];
    let mut exchange = begun.answer(200, &headers).unwrap();
    for piece in answer.as_bytes().chunks(3) {
        exchange.push(piece).unwrap();
    }
    exchange.finish().unwrap();

    // By value in a download, cut anywhere, and in the parts of an address.
    let path = format!("https://a.org/bot{KNOWN}/x?client_secret=canary-j&q={KNOWN}");
    let begun = recorder.begin(&get(&path).view()).unwrap();
    let mut exchange = begun.answer(200, &[("content-type", b"application/zip")]).unwrap();
    for piece in format!("before {KNOWN} after").as_bytes().chunks(7) {
        exchange.push(piece).unwrap();
    }
    exchange.abort().unwrap();
    post("https://a.org/token", b"grant_type=x&password=canary-k&code=canary-l-0123456789")
        .with("content-type", "application/x-www-form-urlencoded")
        .gets(&recorder, "application/json", br#"{"id_token":"canary-m"}"#);
    drop(recorder);

    let mut archive = Vec::new();
    world.tenant().export(&id("a"), &mut archive).unwrap();
    let mut all = everything(world.folder.path());
    all.extend(zstd::decode_all(archive.as_slice()).unwrap());
    assert!(has(&all, "it is _redacted_") && has(&all, "before _redacted_ after"));
    assert!(has(&all, "sid=_redacted_; Path=/"));
    for canary in ["canary", "KnownCanary", &basic[12..24], "0123456789"] {
        assert!(!has(&all, canary), "{canary}");
    }

    // And what was asked with one key is found with another.
    let other = Redactor::new(Names::default(), &[Secret::new("another-key-9876")]).unwrap();
    let player = world.tenant().play(&id("a"), other, Playback::default()).unwrap();
    let path = "https://a.org/botanother-key-9876/x?client_secret=z&q=another-key-9876";
    assert_eq!(get(path).heard(&player), "before _redacted_ after");
}

#[test]
fn even_a_host_name_is_looked_into() {
    let world = World::new();
    let redactor = Redactor::new(Names::default(), &[Secret::new("SecretLabel99")]).unwrap();
    let recorder = world.tenant().record(&id("a"), redactor).unwrap();
    get("https://secretlabel99.example.org/").gets(&recorder, "text/plain", b"");
    assert!(!has(&everything(world.folder.path()), "secretlabel99"));
}

#[test]
fn only_the_owner_can_read() {
    use std::os::unix::fs::PermissionsExt as _;
    fn check(folder: &Path) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o077, 0, "{path:?}");
            if path.is_dir() {
                check(&path);
            }
        }
    }
    let world = World::new();
    post("https://a.org/", b"x").gets(&world.recorder(), "text/plain", b"y");
    check(world.folder.path());
}

#[test]
fn a_request_is_looked_into_whatever_it_is_called() {
    let world = World::new();
    let recorder = world.recorder();
    let body = br#"{"password":"canary-n","url":"https://a.org/?access_token=canary-o"}"#;
    post("https://a.org/1", body).gets(&recorder, "text/plain", b"");
    let form = "application/x-www-form-urlencoded";
    post("https://a.org/2", &body[..23]).with("content-type", form).gets(
        &recorder,
        "text/plain",
        b"",
    );
    post("https://a.org/3", body).with("content-type", "text/plain").gets(
        &recorder,
        "text/plain",
        b"",
    );
    assert!(!has(&everything(world.folder.path()), "canary"));
}

#[test]
fn secrets_may_change_while_a_cassette_is_in_use() {
    let world = World::new();
    let knowing = |secret: &str| Redactor::new(Names::default(), &[Secret::new(secret)]).unwrap();
    let recorder = world.tenant().record(&id("a"), knowing("first-canary")).unwrap();
    recorder.redact_with(knowing("second-canary"));
    post("https://a.org/", b"second-canary").gets(&recorder, "text/plain", b"second-canary");
    assert!(!has(&everything(world.folder.path()), "canary"));
    let player = world.tenant().play(&id("a"), Redactor::by_name(), Playback::default()).unwrap();
    post("https://a.org/", b"third-canary").missed(&player);
    player.redact_with(knowing("third-canary"));
    assert_eq!(post("https://a.org/", b"third-canary").heard(&player), "_redacted_");
}
