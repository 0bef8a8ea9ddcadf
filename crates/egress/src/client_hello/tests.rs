use super::*;
use crate::mutate::{Numbers, mutate, splits};

/// What programs really sent, recorded on a loopback.
const CAPTURES: &[(&str, Option<&str>, &[&str])] = &[
    (include_str!("captures/openssl.hex"), Some("example.org"), &["h2", "http/1.1"]),
    (include_str!("captures/openssl-tls12.hex"), Some("example.org"), &[]),
    (include_str!("captures/openssl-nameless.hex"), None, &[]),
    (include_str!("captures/curl.hex"), Some("example.org"), &["h2", "http/1.1"]),
    (include_str!("captures/node.hex"), Some("example.org"), &["h2"]),
];

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.chunks(2).map(byte).collect()
}

fn read(pieces: &[&[u8]]) -> Result<Option<Hello>, NotHello> {
    let mut reader = Reader::default();
    for piece in pieces {
        if let Some(hello) = reader.push(piece)? {
            return Ok(Some(hello));
        }
    }
    Ok(None)
}

fn short(bytes: &[u8]) -> Vec<u8> {
    [&[u8::try_from(bytes.len()).unwrap()], bytes].concat()
}

fn long(bytes: &[u8]) -> Vec<u8> {
    [&u16::try_from(bytes.len()).unwrap().to_be_bytes(), bytes].concat()
}

fn extension(kind: u16, data: &[u8]) -> Vec<u8> {
    [&kind.to_be_bytes()[..], &long(data)].concat()
}

fn names(names: &[&[u8]]) -> Vec<u8> {
    let entries: Vec<u8> = names.iter().flat_map(|name| [vec![0], long(name)].concat()).collect();
    extension(0, &long(&entries))
}

/// A greeting without the headers around it.
fn body(extensions: &[Vec<u8>]) -> Vec<u8> {
    let front = [&[3, 3][..], &[7; 32], &short(&[]), &long(&[0x13, 1]), &short(&[0])].concat();
    [front, long(&extensions.concat())].concat()
}

fn message(body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len()).unwrap().to_be_bytes();
    [&[1], &length[1..], body].concat()
}

/// The message in records of at most `size` bytes.
fn records(message: &[u8], size: usize) -> Vec<u8> {
    message.chunks(size).flat_map(|piece| [&[22, 3, 1], &long(piece)[..]].concat()).collect()
}

fn record(extensions: &[Vec<u8>]) -> Vec<u8> {
    records(&message(&body(extensions)), 1 << 14)
}

fn name(text: &str) -> Option<HostName> {
    Some(text.parse().unwrap())
}

#[test]
fn real_greetings_are_read_however_they_arrive() {
    for (hex, sni, alpn) in CAPTURES {
        let bytes = bytes(hex);
        let alpn = alpn.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
        let want = Hello { sni: sni.and_then(name), alpn, has_ech: false, has_early_data: false };
        for pieces in splits(&bytes) {
            assert_eq!(read(&pieces), Ok(Some(want.clone())));
        }
        for end in 0..bytes.len() {
            assert_eq!(read(&[&bytes[..end]]), Ok(None));
        }
    }
}

#[test]
fn records_are_put_together() {
    for (hex, sni, _) in CAPTURES {
        let message = &bytes(hex)[5..];
        for size in [1, 2, 3, 7, 50, message.len() - 1] {
            let records = records(message, size);
            let pieces: Vec<_> = records.chunks(records.len().div_ceil(50)).collect();
            for pieces in [pieces, vec![&records], records.chunks(1).collect()] {
                let hello = read(&pieces).unwrap().unwrap();
                assert_eq!(hello.sni, sni.and_then(name), "{size}");
            }
        }
    }
}

#[test]
fn what_follows_in_other_records_is_not_looked_at() {
    let greeting = record(&[names(&[b"a.com"])]);
    let early = [&greeting[..], &[23, 3, 3, 0, 1, 0]].concat();
    assert_eq!(read(&[&early]).unwrap().unwrap().sni, name("a.com"));
    let second = [&greeting[..], &greeting].concat();
    assert_eq!(read(&[&second]).unwrap().unwrap().sni, name("a.com"));
}

#[test]
fn what_is_not_tls_is_told_at_its_first_byte() {
    for text in
        [&b"GET / HTTP/1.1"[..], b"SSH-2.0-x", b"\x80\x2e\x01", b"\x15\x03\x01", b"\x17", b"\0"]
    {
        assert_eq!(read(&[&text[..1]]), Err(NotHello::NotTls));
    }
    assert_eq!(read(&[&[22, 2]]), Err(NotHello::NotTls));
    assert_eq!(read(&[&[22, 3, 9]]), Err(NotHello::NotTls));
    // The second record is another kind than the first.
    let message = message(&body(&[]));
    let mixed = [records(&message[..9], 9), vec![20, 3, 3, 0, 1, 1]].concat();
    assert_eq!(read(&[&mixed]), Err(NotHello::NotTls));
}

#[test]
fn greetings_are_bounded() {
    assert_eq!(read(&[&[22, 3, 1, 0, 0]]), Err(NotHello::Record));
    assert_eq!(read(&[&[22, 3, 1, 0x40, 1]]), Err(NotHello::Record));
    assert_eq!(read(&[&[22, 3, 1, 0, 4, 2, 0, 0, 1]]), Err(NotHello::OtherMessage));
    assert_eq!(read(&[&[22, 3, 1, 0, 4, 1, 0xff, 0, 0]]), Err(NotHello::TooLong));
    let padding = |size: usize| record(&[names(&[b"a.com"]), extension(21, &vec![0; size])]);
    assert_eq!(read(&[&padding(60_000)]).unwrap().unwrap().sni, name("a.com"));
    // Headers of tiny records count as well.
    let tiny = records(&message(&body(&[extension(21, &vec![0; 20_000])])), 1);
    assert_eq!(read(&[&tiny]), Err(NotHello::TooLong));
    let many: Vec<_> = (100..=228).map(|kind| extension(kind, &[])).collect();
    assert!(read(&[&record(&many[..MOST_EXTENSIONS])]).is_ok());
    assert_eq!(read(&[&record(&many)]), Err(NotHello::Extensions));
}

#[test]
fn there_is_one_name_or_none() {
    let check = |extensions: &[Vec<u8>], want: NotHello| {
        assert_eq!(read(&[&record(extensions)]), Err(want));
    };
    assert_eq!(read(&[&record(&[])]).unwrap().unwrap().sni, None);
    let upper = read(&[&record(&[names(&[b"A.Com"])])]).unwrap().unwrap();
    assert_eq!(upper.sni, name("a.com"));
    check(&[names(&[b"a.com", b"b.com"])], NotHello::SeveralNames);
    check(&[names(&[b"a.com"]), names(&[b"a.com"])], NotHello::Extensions);
    for odd in [
        &b"a.com\0.b.com"[..],
        b"a.com.",
        b"a b",
        b"127.0.0.1",
        b"::1",
        b"",
        b"\xff",
        b"a_.com\n",
        &[b'a'; 300],
    ] {
        check(&[names(&[odd])], NotHello::Name);
    }
    let other_kind = extension(0, &long(&[&[1][..], &long(b"a.com")].concat()));
    check(&[other_kind], NotHello::Name);
    check(&[extension(0, &[])], NotHello::Malformed);
    check(&[extension(0, &long(&[]))], NotHello::Malformed);
    let trailing = extension(0, &[&long(&[&[0][..], &long(b"a.com")].concat())[..], &[0]].concat());
    check(&[trailing], NotHello::Malformed);
}

#[test]
fn a_hidden_greeting_is_reported_and_an_inner_one_refused() {
    let hello = read(&[&record(&[names(&[b"a.com"]), extension(0xfe0d, &[0, 0, 1])])]);
    assert_eq!(
        hello,
        Ok(Some(Hello { sni: name("a.com"), alpn: vec![], has_ech: true, has_early_data: false }))
    );
    let inner = record(&[names(&[b"a.com"]), extension(0xfe0d, &[1])]);
    assert_eq!(read(&[&inner]), Err(NotHello::Malformed));
}

#[test]
fn lengths_that_disagree_are_refused() {
    let whole = body(&[names(&[b"a.com"]), extension(16, &long(&short(b"h2")))]);
    // Cut anywhere but where the oldest greetings end.
    let oldest = 2 + 32 + 1 + 4 + 2;
    for end in (0..whole.len()).filter(|end| *end != oldest) {
        let cut = records(&message(&whole[..end]), 1 << 14);
        assert_eq!(read(&[&cut]), Err(NotHello::Malformed), "{end}");
    }
    let cut = records(&message(&whole[..oldest]), 1 << 14);
    assert_eq!(read(&[&cut]).unwrap().unwrap().sni, None);
    let longer = records(&message(&[&whole[..], &[0]].concat()), 1 << 14);
    assert_eq!(read(&[&longer]), Err(NotHello::Malformed));
    let behind = records(&[&message(&whole)[..], &[1, 0, 0, 0]].concat(), 1 << 14);
    assert_eq!(read(&[&behind]), Err(NotHello::Malformed));
    let empty_protocol = record(&[extension(16, &long(&short(&[])))]);
    assert_eq!(read(&[&empty_protocol]), Err(NotHello::Malformed));
}

#[test]
fn made_up_greetings_are_read_the_same_however_they_arrive() {
    let mut seeds: Vec<_> = CAPTURES.iter().map(|(hex, ..)| bytes(hex)).collect();
    seeds.push(record(&[names(&[b"a.com"]), extension(0xfe0d, &[0])]));
    seeds.push(records(&message(&body(&[names(&[b"a.com"])])), 9));
    let spice: &[&[u8]] = &[b"\x16\x03\x01", b"\0\0", b"\xff\xff", b"\xfe\x0d", b"\0", b"a.com"];
    let mut numbers = Numbers::new(4);
    let (mut accepted, mut refused) = (0, 0);
    for _ in 0..100_000 {
        let bytes = mutate(&mut numbers, &seeds, spice);
        let whole = read(&[&bytes]);
        let pieces: Vec<_> = bytes.chunks(1 + numbers.below(40)).collect();
        assert_eq!(read(&pieces), whole, "{:?}", bytes.escape_ascii().to_string());
        match whole {
            Ok(Some(hello)) => {
                accepted += 1;
                let again: Vec<_> =
                    hello.sni.iter().map(|sni| names(&[sni.as_str().as_bytes()])).collect();
                assert_eq!(read(&[&record(&again)]).unwrap().unwrap().sni, hello.sni);
            }
            Ok(None) => {}
            Err(_) => refused += 1,
        }
    }
    assert!(accepted > 5000 && refused > 5000, "{accepted} {refused}");
}

/// What a client sends behind its first greeting, in pieces of every size.
#[track_caller]
fn after(first: &Hello, rest: &[u8], want: &Result<After, NotHello>) {
    for size in [1, 2, 3, 7, rest.len().max(1)] {
        let mut again = Again::after(first);
        let mut found = Ok(After::More);
        for piece in rest.chunks(size) {
            found = again.push(piece);
            if found != Ok(After::More) {
                break;
            }
        }
        assert_eq!(&found, want, "pieces of {size}");
    }
}

fn hello(extensions: &[Vec<u8>]) -> Hello {
    read(&[&record(extensions)]).unwrap().unwrap()
}

#[test]
fn a_second_greeting_is_read_like_the_first() {
    let first = hello(&[names(&[b"example.org"])]);
    let other = hello(&[names(&[b"other.org"])]);
    let spec = [20, 3, 3, 0, 1, 1];
    // Servers that ignore a warning read on.
    let warning = [21, 3, 3, 0, 2, 1, 90];
    let whole = record(&[names(&[b"other.org"])]);
    let message = message(&body(&[names(&[b"other.org"])]));
    for second in [whole, records(&message, 3), records(&message, 1), records(&message, 40)] {
        let want = Ok(After::Hello(other.clone()));
        after(&first, &second, &want);
        after(&first, &[&spec[..], &second].concat(), &want);
        after(&first, &[&warning[..], &spec, &second].concat(), &want);
    }
    let twice = record(&[names(&[b"a.org", b"b.org"])]);
    after(&first, &twice, &Err(NotHello::SeveralNames));
    // Another minor version, and a length that OpenSSL would read.
    let mut later = record(&[names(&[b"other.org"])]);
    later[10] = 5;
    after(&first, &later, &Ok(After::Hello(other)));
    after(&first, &[22, 3, 1, 64, 0, 1, 2, 0, 0, 3, 3], &Err(NotHello::TooLong));
}

#[test]
fn encrypted_data_ends_the_search_unless_the_client_announced_it() {
    let second = record(&[names(&[b"other.org"])]);
    let data = [&[23, 3, 3, 0, 3, 9, 9, 9][..], &[23, 3, 3, 0, 1, 1]].concat();
    let plain = hello(&[names(&[b"example.org"])]);
    after(&plain, &[&data[..], &second].concat(), &Ok(After::Over));
    let early = hello(&[names(&[b"example.org"]), extension(42, &[])]);
    assert!(early.has_early_data);
    let want = Ok(After::Hello(hello(&[names(&[b"other.org"])])));
    after(&early, &[&data[..], &second].concat(), &want);
}

#[test]
fn other_messages_of_a_handshake_are_no_greetings() {
    let first = hello(&[names(&[b"example.org"])]);
    // A key exchange of TLS 1.2; what is encrypted after a resumption; no record.
    let encrypted = [&[20, 3, 3, 0, 1, 1, 22, 3, 3, 0, 40][..], &[1; 40]].concat();
    let others: [&[u8]; 3] = [&[22, 3, 3, 0, 4, 16, 0, 0, 0], &encrypted, b"GET / HTTP/1.1"];
    for rest in others {
        after(&first, rest, &Ok(After::Over));
    }
}
