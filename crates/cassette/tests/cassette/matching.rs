use belljar_cassette::{Matching, Playback, Player, Redactor, RequestError};

use crate::ask::{World, get, id, post, say};

#[test]
fn a_body_changed_by_one_byte_is_a_miss() {
    let world = World::new();
    let recorder = world.recorder();
    let body = r#"{"model":"m","max_tokens":5,"messages":[{"role":"user","content":"Hello"}]}"#;
    say(body).gets(&recorder, "application/json", b"{}");
    post("https://a.org/raw", body.as_bytes()).gets(&recorder, "text/plain", b"raw");
    let player = world.player();
    say(body).heard(&player);
    for at in 0..body.len() {
        let mut changed = body.as_bytes().to_vec();
        changed[at] ^= 1;
        let url = "https://api.example.org/v1/messages";
        post(url, &changed).with("content-type", "application/json").missed(&player);
        post("https://a.org/raw", &changed).missed(&player);
    }
    for more in [format!("{body} x"), body[1..].to_owned(), String::new()] {
        say(&more).missed(&player);
        post("https://a.org/raw", more.as_bytes()).missed(&player);
    }
    // Bytes that are not JSON do not become it: space counts there.
    post("https://a.org/raw", format!("{body} ").as_bytes()).missed(&player);
}

#[test]
fn order_of_fields_and_parameters_does_not_count() {
    let world = World::new();
    let recorder = world.recorder();
    say(r#"{"a":1,"b":[1,2]}"#).gets(&recorder, "text/plain", b"json");
    get("https://a.org/?a=1&b=2&a=3").gets(&recorder, "text/plain", b"query");
    let player = world.player();
    assert_eq!(say("{\"b\": [1, 2],\n \"a\": 1}").heard(&player), "json");
    say(r#"{"a":1,"b":[2,1]}"#).missed(&player);
    assert_eq!(get("https://a.org/?b=2&a=1&a=3").heard(&player), "query");
    get("https://a.org/?a=3&a=1&b=2").missed(&player);
    get("https://a.org/?a=1&b=2").missed(&player);
    get("https://a.org/?a=1&b=2&a=3&c").missed(&player);
}

#[test]
fn every_part_of_the_address_counts() {
    let world = World::new();
    get("https://a.org/x").gets(&world.recorder(), "text/plain", b"");
    let player = world.player();
    for url in [
        "http://a.org/x",
        "https://b.org/x",
        "https://a.org:444/x",
        "https://a.org/X",
        "https://a.org/x/",
        "https://a.org/x?y",
        "https://a.org/%78",
        "http://a.org:443/x",
    ] {
        get(url).missed(&player);
    }
    get("https://a.org/x").by("HEAD").missed(&player);
    get("https://a.org/x").found(&player);
}

#[test]
fn a_condition_is_not_answered_with_the_answer_to_another() {
    let world = World::new();
    let recorder = world.recorder();
    get("https://a.org/").with("if-none-match", "\"1\"").gets_with(&recorder, 304, &[], b"");
    get("https://a.org/").with("accept", "text/html").gets(&recorder, "text/html", b"page");
    let player = world.player();
    get("https://a.org/").missed(&player);
    get("https://a.org/").with("accept", "application/json").missed(&player);
    assert_eq!(get("https://a.org/").with("if-none-match", "\"1\"").found(&player).status, 304);
    // Others do not count.
    get("https://a.org/").with("accept", "text/html").with("user-agent", "x").found(&player);
}

#[test]
fn secrets_do_not_count() {
    let world = World::new();
    let ask = |key: &'static str, query: &'static str| {
        get(query).with("authorization", key).with("x-api-key", key).with("cookie", key)
    };
    ask("one", "https://a.org/?api_key=one").gets(&world.recorder(), "text/plain", b"same");
    let player = world.player();
    assert_eq!(ask("two", "https://a.org/?api_key=two").heard(&player), "same");
    get("https://a.org/").missed(&player);
}

fn player(world: &World, matching: Matching) -> Player {
    let playback = Playback { matching, ..Playback::default() };
    world.tenant().play(&id("a"), Redactor::by_name(), playback).unwrap()
}

#[test]
fn what_is_ignored_does_not_count_and_all_else_does() {
    let world = World::new();
    let recorder = world.recorder();
    say(r#"{"id":1,"messages":[{"at":"1","t":"x"}]}"#).gets(&recorder, "text/plain", b"said");
    get("https://a.org/?now=1&x=2").gets(&recorder, "text/plain", b"got");
    let matching = Matching {
        ignored_fields: vec!["/id".into(), "/messages/*/at".into()],
        ignored_parameters: vec!["now".into()],
        ..Matching::default()
    };
    let player = player(&world, matching);
    assert_eq!(say(r#"{"id":2,"messages":[{"at":"2","t":"x"}]}"#).heard(&player), "said");
    assert_eq!(say(r#"{"messages":[{"t":"x"}]}"#).heard(&player), "said");
    let miss = say(r#"{"id":2,"messages":[{"at":"2","t":"y"}]}"#).missed(&player);
    let differs = miss.nearest.unwrap().differs;
    assert_eq!(differs.len(), 1);
    assert_eq!(differs[0].what.to_string(), "the body at `/messages/0/t`");
    assert_eq!(get("https://a.org/?x=2&now=5").heard(&player), "got");
    get("https://a.org/?x=3&now=1").missed(&player);
}

#[test]
fn which_headers_count_can_be_chosen() {
    let world = World::new();
    get("https://a.org/").with("accept", "a").gets(&world.recorder(), "text/plain", b"");
    get("https://a.org/").with("accept", "b").missed(&world.player());
    let none = Matching { headers: vec![], ..Matching::default() };
    get("https://a.org/").with("accept", "b").found(&player(&world, none));
}

#[test]
fn a_target_that_is_none_is_refused() {
    let world = World::new();
    let ask = get("https://a.org/");
    let mut request = ask.view();
    for path in ["x", "/a b", "/a\r\nb", "/a#b", "/a?b", "/é", ""] {
        request.path = path;
        let error = world.recorder().begin(&request).unwrap_err();
        assert!(error.to_string().contains("target"), "{path}");
    }
    request.path = "/";
    request.headers = &[("content-encoding", b"gzip")];
    request.body = b"not gzip";
    let error = world.recorder().begin(&request).unwrap_err();
    assert!(matches!(error, belljar_cassette::RecordError::Request(RequestError::Encoding)));
}
