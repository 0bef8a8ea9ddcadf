use super::*;
use crate::mutate::{Numbers, mutate};

fn by_name(name: &[u8], port: u16) -> Vec<u8> {
    let count = u8::try_from(name.len()).unwrap();
    [&[5, 1, 0, 3, count], name, &port.to_be_bytes()].concat()
}

fn to(host: &str, port: u16) -> Destination {
    Destination { host: host.parse().unwrap(), port }
}

/// A message is read only when it is whole, and what follows is left.
#[track_caller]
fn check<T: PartialEq + std::fmt::Debug>(
    read: impl Fn(&[u8]) -> Result<Option<(T, usize)>, Refused>,
    message: &[u8],
    want: T,
) {
    for end in 0..message.len() {
        assert_eq!(read(&message[..end]), Ok(None), "{end}");
    }
    let longer = [message, b"\x05rest"].concat();
    assert_eq!(read(&longer), Ok(Some((want, message.len()))));
}

#[test]
fn the_simplest_offered_method_is_taken() {
    check(greeting, &[5, 1, 0], Method::None);
    check(greeting, &[5, 2, 2, 0], Method::None);
    check(greeting, &[5, 1, 2], Method::Password);
    check(greeting, &[5, 2, 1, 0x80], Method::Unacceptable);
    assert_eq!(Method::None.answer(), [5, 0]);
    assert_eq!(Method::Password.answer(), [5, 2]);
    assert_eq!(Method::Unacceptable.answer(), [5, 0xff]);
    assert_eq!(greeting(&[4, 1, 0]), Err(Refused::Version));
    assert_eq!(greeting(b"GET"), Err(Refused::Version));
    assert_eq!(greeting(&[5, 0]), Err(Refused::Malformed));
}

#[test]
fn a_password_is_skipped() {
    let skip = |buffer: &[u8]| Ok(login(buffer)?.map(|length| ((), length)));
    check(skip, b"\x01\x04user\x04pass", ());
    check(skip, b"\x01\x01u\x00", ());
    assert_eq!(login(b"\x05\x01u\x01p"), Err(Refused::Malformed));
    assert_eq!(login(b"\x01\x00"), Err(Refused::Malformed));
}

#[test]
fn requests_name_a_host_or_an_address() {
    check(request, &by_name(b"Example.org", 443), to("example.org", 443));
    check(request, &by_name(b"127.0.0.1", 80), to("127.0.0.1", 80));
    check(request, &[5, 1, 0, 1, 127, 0, 0, 1, 0x1f, 0x90], to("127.0.0.1", 8080));
    let v6 = |text: &str| {
        let octets = text.parse::<Ipv6Addr>().unwrap().octets();
        [&[5, 1, 0, 4][..], &octets, &[1, 187]].concat()
    };
    check(request, &v6("2001:db8::1"), to("[2001:db8::1]", 443));
    // However it is sent, one place is one place.
    check(request, &v6("::ffff:169.254.169.254"), to("169.254.169.254", 443));
}

#[test]
fn anything_but_connect_is_refused_at_once() {
    assert_eq!(request(&[4]), Err(Refused::Version));
    for command in [0, 2, 3, 255] {
        assert_eq!(request(&[5, command]), Err(Refused::Command));
    }
    assert_eq!(request(&[5, 1, 1]), Err(Refused::Malformed));
    for kind in [0, 2, 5, 255] {
        assert_eq!(request(&[5, 1, 0, kind]), Err(Refused::AddressType));
    }
    assert_eq!(request(&[5, 1, 0, 3, 0]), Err(Refused::Malformed));
    assert_eq!(request(&by_name(b"h", 0)), Err(Refused::Port));
    assert_eq!(request(&[5, 1, 0, 1, 1, 1, 1, 1, 0, 0]), Err(Refused::Port));
}

#[test]
fn names_with_two_readings_are_refused() {
    for name in [
        &b"evil.com\0.allowed.com"[..],
        b"evil.com\r\n.allowed.com",
        b"evil.com\n",
        b"evil.com ",
        b"a@b.com",
        b"a.com#b",
        b"a.com/b",
        b"a.com:443",
        b"127.1",
        b"0x7f.1",
        b"2130706433",
        b"::1",
        b"fe80::1%lo",
        b"*.a.com",
        b"\xff\xfe",
        b".",
        b"a..b",
        &[b'a'; 255],
    ] {
        let text = name.escape_ascii().to_string();
        assert_eq!(request(&by_name(name, 443)), Err(Refused::Host), "{text}");
    }
}

#[test]
fn answers_have_the_ten_bytes_that_clients_wait_for() {
    assert_eq!(Answer::Connected.bytes(), [5, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
    assert_eq!(Answer::NotAllowed.bytes()[1], 2);
    assert_eq!(Answer::from(Refused::Command).bytes()[1], 7);
    assert_eq!(Answer::from(Refused::AddressType).bytes()[1], 8);
    assert_eq!(Answer::from(Refused::Host).bytes()[1], 1);
}

#[test]
fn made_up_requests_are_refused_or_written_again_the_same() {
    let seeds = [
        by_name(b"example.org", 443),
        by_name(b"a.b", 80),
        vec![5, 1, 0, 1, 127, 0, 0, 1, 0, 80],
        [&[5, 1, 0, 4][..], &[0x20; 16], &[0, 80]].concat(),
    ];
    let mut numbers = Numbers::new(3);
    let (mut accepted, mut refused) = (0, 0);
    for _ in 0..100_000 {
        let bytes = mutate(&mut numbers, &seeds, &[b"\0", b"\x03", b".", b"@", b"\xff", b"127.1"]);
        let _ = (greeting(&bytes), login(&bytes));
        match request(&bytes) {
            Ok(Some((destination, length))) => {
                accepted += 1;
                assert!(length <= bytes.len() && destination.port != 0);
                let again = by_name(destination.host.to_string().as_bytes(), destination.port);
                assert_eq!(request(&again), Ok(Some((destination, again.len()))));
            }
            Ok(None) => {}
            Err(_) => refused += 1,
        }
    }
    assert!(accepted > 5000 && refused > 5000, "{accepted} {refused}");
}
