use super::*;

const CANARY: &str = "Canary/Kx7+secret=42";

fn redactor() -> Redactor {
    Redactor::new(Names::default(), &[Secret::new(CANARY)]).unwrap()
}

fn json(text: &str) -> String {
    let body = Redactor::by_name().body(Form::Json, text.into(), &mut []);
    String::from_utf8(body).unwrap()
}

#[test]
fn fields_lose_their_values_and_nothing_else_changes() {
    for (given, want) in [
        (r#"{ "api_key" : "abc" , "x":1.50}"#, r#"{ "api_key" : "_redacted_" , "x":1.50}"#),
        (r#"{"apiKey":"a\"b","n":"c"}"#, r#"{"apiKey":"_redacted_","n":"c"}"#),
        (r#"{"\u0061pi-key":"abc"}"#, r#"{"\u0061pi-key":"_redacted_"}"#),
        (r#"{"password":1234}"#, r#"{"password":"_redacted_"}"#),
        (
            r#"{"password":["a","b"],"c":"d"}"#,
            r#"{"password":["_redacted_","_redacted_"],"c":"d"}"#,
        ),
        (r#"{"password":"cut of"#, r#"{"password":"_redacted_"#),
        (r#"{"password":"#, r#"{"password":"#),
        // What only looks like a secret: a schema, and a word of a model.
        (r#"{"password":{"type":"string"}}"#, r#"{"password":{"type":"string"}}"#),
        (r#"{"token":"Hello"}"#, r#"{"token":"Hello"}"#),
        (r#"{"token":"0123456789abcdef"}"#, r#"{"token":"_redacted_"}"#),
        (r#"{"cookie":"0.7.1","max_tokens":5}"#, r#"{"cookie":"0.7.1","max_tokens":5}"#),
        (r#"["password","x"]"#, r#"["password","x"]"#),
        ("say \"hi\ndata: {\"password\":\"p\"}", "say \"hi\ndata: {\"password\":\"_redacted_\"}"),
        (
            r#"{"href":"https://a.org/f?x=1\u0026X-Amz-Signature=ab12&y=2"}"#,
            r#"{"href":"https://a.org/f?x=1\u0026X-Amz-Signature=_redacted_&y=2"}"#,
        ),
    ] {
        assert_eq!(json(given), want);
    }
}

#[test]
fn parameters_lose_their_values() {
    let redactor = Redactor::by_name();
    let check = |given, want| assert_eq!(redactor.query(given), want);
    check("a=1&api%5Fkey=x&b", "a=1&api%5Fkey=_redacted_&b");
    check("key=short&key=AIzaSyA0123456789", "key=short&key=_redacted_");
    check("token=&=&&access_token=a=b", "token=&=&&access_token=_redacted_");
}

#[test]
fn headers_lose_their_values() {
    let value = |name: &str, value: &str| redactor().header(name, value.as_bytes()).unwrap().1;
    for name in [
        "Authorization",
        "proxy-authorization",
        "Cookie",
        "x-api-key",
        "API-Key",
        "X-Auth-Token",
        "x-amz-security-token",
        "x-csrf-token",
        "X-Client-Secret",
    ] {
        assert_eq!(value(name, "anything"), PLACEHOLDER, "{name}");
    }
    for name in ["anthropic-ratelimit-tokens-remaining", "www-authenticate", "etag", "accept"] {
        assert_eq!(value(name, "4000"), "4000", "{name}");
    }
    assert_eq!(value("Set-Cookie", "sid=abc; Path=/; Secure"), "sid=_redacted_; Path=/; Secure");
    assert_eq!(value("set-cookie", "abc"), "_redacted_");
    assert_eq!(
        value("location", "https://a.org/f?a=1&X-Amz-Credential=me%2Fyou"),
        "https://a.org/f?a=1&X-Amz-Credential=_redacted_"
    );
    assert_eq!(value("x-echo", &format!("it is {CANARY}!")), "it is _redacted_!");
    assert_eq!(value("x-bytes", "é"), "\u{c3}\u{a9}");
}

#[test]
fn known_secrets_are_found_in_all_their_forms() {
    use base64::Engine as _;
    use base64::engine::general_purpose::{STANDARD, URL_SAFE};
    let hidden = |content: Vec<u8>| {
        let body = redactor().body(Form::Opaque, content, &mut []);
        String::from_utf8(body).unwrap()
    };
    assert_eq!(hidden(format!("a{CANARY}b{CANARY}").into()), "a_redacted_b_redacted_");
    assert_eq!(hidden(b"Canary%2FKx7%2Bsecret%3D42".to_vec()), PLACEHOLDER);
    assert_eq!(hidden(b"Canary%2fKx7%2bsecret%3d42".to_vec()), PLACEHOLDER);
    assert_eq!(hidden(CANARY.to_ascii_lowercase().into()), PLACEHOLDER);
    for around in ["", "u", "us", "user:", "user:x"] {
        let plain = format!("{around}{CANARY}{around}");
        for encoded in [STANDARD.encode(&plain), URL_SAFE.encode(&plain)] {
            let left = hidden(encoded.clone().into());
            assert!(left.contains(PLACEHOLDER), "{encoded} left {left}");
            assert!(left.len() < PLACEHOLDER.len() + 2 * around.len() + 10, "{left}");
        }
    }
    let quoted = Redactor::new(Names::default(), &[Secret::new("se\"cret\\value")]).unwrap();
    assert_eq!(quoted.text(r#""se\"cret\\value""#), r#""_redacted_""#);
}

#[test]
fn a_secret_does_not_slip_through_between_two_pieces() {
    // One secret is the beginning of another: the rest of it must not stay.
    let secrets = [Secret::new("sk-abcdefgh"), Secret::new("sk-abcdefgh-longer")];
    let redactor = Redactor::new(Names::default(), &secrets).unwrap();
    let content = b"x sk-abcdefgh-longer y sk-abcdefgh z";
    for size in 1..content.len() {
        let mut stream = redactor.stream();
        let mut out: Vec<u8> = content.chunks(size).flat_map(|piece| stream.push(piece)).collect();
        out.extend(stream.finish());
        assert_eq!(str::from_utf8(&out), Ok("x _redacted_ y _redacted_ z"), "{size}");
    }
}

#[test]
fn a_stream_without_secrets_holds_nothing_back() {
    assert_eq!(Redactor::by_name().stream().push(b"abc"), b"abc");
}

#[test]
fn a_secret_like_ordinary_text_is_refused() {
    assert_eq!(Redactor::new(Names::default(), &[Secret::new("a")]).err(), Some(UnfitSecret(1)));
}

#[test]
fn secrets_are_not_shown() {
    assert!(!format!("{:?} {:?}", Secret::new(CANARY), redactor()).contains("Canary"));
}
