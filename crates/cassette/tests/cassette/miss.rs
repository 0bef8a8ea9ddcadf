use expect_test::{Expect, expect};

use crate::ask::{Ask, World, get, post, say};

fn world() -> World {
    let world = World::new();
    let recorder = world.recorder();
    get("https://index.example.org/simple/numpy/").gets(&recorder, "text/html", b"");
    get("https://index.example.org/simple/pandas/?v=1&w=2").with("accept", "text/html").gets(
        &recorder,
        "text/html",
        b"",
    );
    for turn in [
        r#"{"model":"m","messages":[{"role":"user","content":"Count the words."}]}"#,
        r#"{"model":"m","messages":[{"role":"user","content":"Count the words."},{"role":"assistant","content":"There are seven of them, as far as I can see in the file."}]}"#,
    ] {
        say(turn).gets(&recorder, "application/json", b"{}");
    }
    post("https://up.example.org/", b"some plain bytes").gets(&recorder, "text/plain", b"");
    world
}

#[track_caller]
fn check(ask: &Ask<'_>, want: &Expect) {
    want.assert_eq(&ask.missed(&world().player()).to_string());
}

#[test]
fn a_miss_says_what_is_nearest_and_how_it_differs() {
    check(
        &get("https://index.example.org/simple/pandas/?v=3&x=1").with("accept", "*/*"),
        &expect![
            "GET https://index.example.org/simple/pandas/?v=3&x=1 is not among the 5 recorded exchanges; the nearest is GET https://index.example.org/simple/pandas/?v=1&w=2, which differs in query parameter `v`: `1` was recorded, `3` is asked; in query parameter `w`: `2` was recorded, nothing is asked; in query parameter `x`: nothing was recorded, `1` is asked; in header `accept`: `text/html` was recorded, `*/*` is asked"
        ],
    );
    check(
        &get("https://index.example.org/simple/nump/"),
        &expect![
            "GET https://index.example.org/simple/nump/ is not among the 5 recorded exchanges; the nearest is GET https://index.example.org/simple/numpy/, which differs in the path: `/simple/numpy/` was recorded, `/simple/nump/` is asked"
        ],
    );
    check(
        &get("https://index.example.org/simple/numpy/").by("HEAD"),
        &expect![
            "HEAD https://index.example.org/simple/numpy/ is not among the 5 recorded exchanges; the nearest is GET https://index.example.org/simple/numpy/, which differs in the method: `GET` was recorded, `HEAD` is asked"
        ],
    );
    check(
        &get("http://index.example.org:8080/simple/numpy/"),
        &expect![
            "GET http://index.example.org:8080/simple/numpy/ is not among the 5 recorded exchanges; the nearest is GET https://index.example.org/simple/numpy/, which differs in the scheme: `https` was recorded, `http` is asked; in the port: `443` was recorded, `8080` is asked"
        ],
    );
    check(
        &get("https://mirror.example.org/simple/numpy/"),
        &expect![
            "GET https://mirror.example.org/simple/numpy/ is not among the 5 recorded exchanges; the nearest is GET https://index.example.org/simple/numpy/, which differs in the host: `index.example.org` was recorded, `mirror.example.org` is asked"
        ],
    );
    check(
        &get("https://elsewhere.example.org/"),
        &expect!["GET https://elsewhere.example.org/ is not among the 5 recorded exchanges"],
    );
    check(
        &post("https://up.example.org/", b"some plain Bytes"),
        &expect![
            "POST https://up.example.org/ is not among the 5 recorded exchanges; the nearest is POST https://up.example.org/, which differs in the body from byte 11: `some plain bytes` was recorded, `some plain Bytes` is asked"
        ],
    );
}

#[test]
fn a_conversation_that_drifts_is_told_at_which_word() {
    check(
        &say(
            r#"{"model":"m","messages":[{"role":"user","content":"Count the words."},{"role":"assistant","content":"There are seven of them, as far as I can tell."}]}"#,
        ),
        &expect![[
            r#"POST https://api.example.org/v1/messages is not among the 5 recorded exchanges; the nearest is POST https://api.example.org/v1/messages, which differs in the body at `/messages/1/content`: `…em, as far as I can see in the file."` was recorded, `…em, as far as I can tell."` is asked"#
        ]],
    );
    check(
        &say(r#"{"model":"m","messages":[{"role":"user","content":"Count the lines."}]}"#),
        &expect![[
            r#"POST https://api.example.org/v1/messages is not among the 5 recorded exchanges; the nearest is POST https://api.example.org/v1/messages, which differs in the body at `/messages/0/content`: `"Count the words."` was recorded, `"Count the lines."` is asked"#
        ]],
    );
    check(
        &say(r#"{"model":"m","messages":[],"stream":true}"#),
        &expect![[
            r#"POST https://api.example.org/v1/messages is not among the 5 recorded exchanges; the nearest is POST https://api.example.org/v1/messages, which differs in the body at `/messages/0`: `{"content":"Count the words.","role":"user"}` was recorded, nothing is asked"#
        ]],
    );
}

#[test]
fn a_miss_can_be_told_to_programs() {
    let miss = get("https://index.example.org/simple/numpy/?a").missed(&world().player());
    let want = expect![[r#"
        {
          "method": "GET",
          "url": "https://index.example.org/simple/numpy/?a",
          "recorded": 5,
          "nearest": {
            "number": 0,
            "method": "GET",
            "url": "https://index.example.org/simple/numpy/",
            "differs": [
              {
                "what": "parameter",
                "at": "a",
                "recorded": null,
                "asked": ""
              }
            ]
          }
        }"#]];
    want.assert_eq(&serde_json::to_string_pretty(&miss).unwrap());
}

#[test]
fn a_miss_shows_no_secret() {
    let miss = get("https://index.example.org/simple/numpy/?api_key=canary7")
        .with("authorization", "canary8")
        .missed(&world().player());
    let shown = format!("{miss} {miss:?} {}", serde_json::to_string(&miss).unwrap());
    assert!(!shown.contains("canary"), "{shown}");
    assert!(shown.contains("api_key=_redacted_"), "{shown}");
}
