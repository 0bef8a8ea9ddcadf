use super::*;

fn own() -> Vec<Attribute> {
    vec![
        Attribute { name: "belljar.tenant", value: Value::Text("a".into()) },
        Attribute { name: "belljar.turn", value: Value::Number(300) },
    ]
}

/// A field with a length.
fn field(number: u32, parts: &[&[u8]]) -> Vec<u8> {
    let mut out = Vec::new();
    write(number, &parts.concat(), &mut out);
    out
}

/// A `KeyValue` with text, as this field.
fn pair(number: u32, key: &str, value: &str) -> Vec<u8> {
    let any = field(1, &[value.as_bytes()]);
    field(number, &[&field(1, &[key.as_bytes()]), &field(2, &[&any])])
}

fn contains(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

#[test]
fn numbers_are_read_as_they_are_written() {
    for number in [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX] {
        let mut bytes = Vec::new();
        put(number, &mut bytes);
        assert_eq!(varint(&bytes), Ok((number, bytes.len())));
    }
    assert_eq!(varint(&[0x80; 11]), Err(Malformed::Protobuf));
    assert_eq!(
        varint(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2]),
        Err(Malformed::Protobuf)
    );
    assert_eq!(varint(&[0x80]), Err(Malformed::Protobuf));
}

#[test]
fn our_attributes_are_the_last_of_each_resource() {
    let theirs = pair(1, "service.name", "x");
    let scopes = field(2, &[&field(2, &[b"\x08\x01"])]);
    let request = [
        field(1, &[&field(1, &[&theirs]), &scopes, &field(3, &[b"u"])]),
        // No resource at all.
        field(1, &[&scopes]),
    ]
    .concat();
    let got = attributed(Signal::Logs, &request, &own()).unwrap();
    let ours = [
        pair(1, "belljar.tenant", "a"),
        field(1, &[&field(1, &[b"belljar.turn"]), &field(2, &[b"\x18\xac\x02"])]),
    ]
    .concat();
    let want = [
        field(1, &[&field(1, &[&theirs, &ours]), &scopes, &field(3, &[b"u"])]),
        field(1, &[&field(1, &[&ours]), &scopes]),
    ]
    .concat();
    assert_eq!(got, want);
    assert_eq!(attributed(Signal::Logs, b"", &own()), Ok(vec![]));
}

#[test]
fn forged_attributes_are_taken_out_at_every_depth() {
    let kept = |number| pair(number, "kept", "k");
    let forged = |number| pair(number, "belljar.tenant", "FORGED");
    let both = |number| [kept(number), forged(number)].concat();
    let scope = field(1, &[&both(3)]);
    let span = field(2, &[&both(9), &field(11, &[&both(3)]), &field(13, &[&both(4)])]);
    let exemplar = |number| field(number, &[&both(7)]);
    let numbers = field(1, &[&both(7), &exemplar(5)]);
    let histogram = field(1, &[&both(9), &exemplar(8)]);
    let exponential = field(1, &[&both(1), &exemplar(11)]);
    let metric = field(
        2,
        &[
            &field(5, &[&numbers]),
            &field(7, &[&numbers]),
            &field(9, &[&histogram]),
            &field(10, &[&exponential]),
            &field(11, &[&field(1, &[&both(7)])]),
            &both(12),
        ],
    );
    let log = field(2, &[&both(6)]);
    for (signal, record, count) in
        [(Signal::Traces, span, 5), (Signal::Metrics, metric, 12), (Signal::Logs, log, 3)]
    {
        // The resource in two parts, which protobuf adds up.
        let resource = [field(1, &[&forged(1)]), field(1, &[&both(1)])].concat();
        let request = field(1, &[&resource, &field(2, &[&scope, &record])]);
        assert!(contains(&request, "FORGED"));
        let got = attributed(signal, &request, &own()).unwrap();
        assert!(!contains(&got, "FORGED"), "{signal:?}");
        let left = got.windows(4).filter(|window| *window == b"kept").count();
        assert_eq!(left, count, "{signal:?}");
    }
}

#[test]
fn two_keys_of_one_attribute_are_both_looked_at() {
    let value = field(2, &[&field(1, &[b"v"])]);
    let (ours, theirs) = (field(1, &[b"belljar.run"]), field(1, &[b"x"]));
    for keys in [[&ours, &theirs], [&theirs, &ours]] {
        let attribute = field(1, &[keys[0], keys[1], &value]);
        let request = field(1, &[&field(1, &[&attribute])]);
        let got = attributed(Signal::Traces, &request, &[]).unwrap();
        assert_eq!(got, field(1, &[&field(1, &[])]));
    }
}

#[test]
fn what_a_collector_could_read_otherwise_is_refused() {
    let request = |inner: &[u8]| field(1, &[inner]);
    for (bytes, why) in [
        // Another field of the request, of a resource's message, and of a resource.
        (field(2, &[]), Malformed::Field),
        (request(&field(4, &[])), Malformed::Field),
        (request(&field(1, &[&field(4, &[])])), Malformed::Field),
        // A message that is a number; a group; a tag that is longer than it must be; no number.
        (vec![0x08, 1], Malformed::Protobuf),
        (request(&[0x08, 1]), Malformed::Protobuf),
        (vec![0x0b, 0x0c], Malformed::Protobuf),
        (vec![0x8a, 0x00, 0x00], Malformed::Protobuf),
        (vec![0x02, 0x00], Malformed::Protobuf),
        // Longer than the body, at two depths.
        (vec![0x0a, 5, 1], Malformed::Protobuf),
        (request(&[0x0a, 5, 1]), Malformed::Protobuf),
        (vec![0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1], Malformed::Protobuf),
        // A key that is no text.
        (request(&field(1, &[&field(1, &[&field(1, &[&[0xff]])])])), Malformed::Protobuf),
        (field(1, &[]).repeat(MAX_RESOURCES + 1), Malformed::Resources),
    ] {
        assert_eq!(attributed(Signal::Traces, &bytes, &own()), Err(why), "{bytes:x?}");
    }
}

/// No text makes it panic, nor much longer than it was.
#[test]
fn any_bytes_are_answered() {
    let span = field(2, &[&pair(9, "belljar.x", "y"), &[0x10, 0x96, 0x01]]);
    let good = field(1, &[&field(1, &[&pair(1, "a", "b")]), &field(2, &[&span])]);
    for at in 0..good.len() {
        for byte in 0..=255 {
            let mut bytes = good.clone();
            bytes[at] = byte;
            if let Ok(got) = attributed(Signal::Traces, &bytes, &own()) {
                assert!(got.len() <= bytes.len() + 4 * (encode(&own()).len() + 16));
            }
        }
    }
}
