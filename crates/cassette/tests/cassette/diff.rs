use belljar_cassette::{Matching, Redactor};
use expect_test::expect;

use crate::ask::{World, get, id, say};

#[test]
fn two_recordings_are_compared_exchange_by_exchange() {
    let world = World::new();
    let before = world.recorder();
    let after = world.tenant().record(&id("b"), Redactor::by_name()).unwrap();
    for recorder in [&before, &after] {
        get("https://a.org/same").gets_with(recorder, 200, &[("date", "now")], b"x");
    }
    get("https://a.org/gone").gets(&before, "text/plain", b"x");
    get("https://a.org/new").gets(&after, "text/plain", b"x");
    get("https://a.org/json").gets(&before, "application/json", br#"{"v":[1,{"w":"old"}],"z":0}"#);
    get("https://a.org/json").gets(&after, "application/json", br#"{"z":0,"v":[1,{"w":"new"}]}"#);
    get("https://a.org/order").gets(&before, "application/json", br#"{"a":1,"b":2}"#);
    get("https://a.org/order").gets(&after, "application/json", br#"{"b":2,"a":1}"#);
    get("https://a.org/status").gets_with(&before, 200, &[], b"fine");
    get("https://a.org/status").gets_with(&after, 500, &[], b"not fine");
    say(r#"{"messages":["hello"]}"#).gets(&before, "text/plain", b"x");
    say(r#"{"messages":["goodbye"]}"#).gets(&after, "text/plain", b"x");
    // Repeated: compared in order, and the third is new.
    for body in [b"1", b"2"] {
        get("https://a.org/again").gets(&before, "text/plain", body);
        get("https://a.org/again").gets(&after, "text/plain", body);
    }
    get("https://a.org/again").gets(&after, "text/plain", b"3");

    let changes = world.tenant().diff(&id("a"), &id("b"), &Matching::default()).unwrap();
    expect![[r#"
        - GET https://a.org/gone 200
        + GET https://a.org/new 200
        + GET https://a.org/again 200
        ~ GET https://a.org/json 200
            answer, the body at `/v/1/w`: "old" → "new"
        ~ GET https://a.org/status 500
            answer, the status: 200 → 500
            answer, the body from byte 0: fine → not fine
        ~ POST https://api.example.org/v1/messages 200
            request, the body at `/messages/0`: "hello" → "goodbye"
    "#]]
    .assert_eq(&changes.to_string());
    assert!(!changes.is_empty());
    assert!(world.tenant().diff(&id("a"), &id("a"), &Matching::default()).unwrap().is_empty());
}
