//! Messages of SOCKS 5.

use belljar_domain::network::Host;
use belljar_egress::Destination;
use belljar_egress::socks5::{greeting, login, request};

use super::Outcome;

/// What is read does not change when more follows, and nothing is taken that is not there.
pub fn socks5(input: &[u8]) -> Outcome {
    settles(input, |bytes| {
        greeting(bytes).map(|read| read.map(|(method, length)| (method.answer(), length)))
    });
    settles(input, |bytes| login(bytes).map(|read| read.map(|length| ([0; 2], length))));
    settles(input, |bytes| {
        request(bytes).map(|read| read.map(|(to, length)| (to.to_string(), length)))
    });
    let Ok(Some((to, _))) = request(input) else { return Outcome::Refused };
    let again = written(&to);
    assert_eq!(request(&again), Ok(Some((to, again.len()))), "written again");
    Outcome::Both
}

/// Reads ever longer beginnings: once something is said, it stays.
fn settles<T: PartialEq + std::fmt::Debug, E: PartialEq + std::fmt::Debug>(
    input: &[u8],
    read: impl Fn(&[u8]) -> Result<Option<(T, usize)>, E>,
) {
    let whole = read(input);
    if let Ok(Some((_, length))) = &whole {
        assert!(*length <= input.len());
        assert_eq!(read(&input[..*length]), whole, "nothing else is looked at");
    }
    for end in 0..input.len().min(300) {
        match read(&input[..end]) {
            Ok(None) => {}
            said => return assert_eq!(said, whole, "after {end} bytes"),
        }
    }
}

fn written(to: &Destination) -> Vec<u8> {
    let mut bytes = vec![5, 1, 0];
    match &to.host {
        Host::Address(std::net::IpAddr::V4(address)) => {
            bytes.push(1);
            bytes.extend(address.octets());
        }
        Host::Address(std::net::IpAddr::V6(address)) => {
            bytes.push(4);
            bytes.extend(address.octets());
        }
        name => {
            let name = name.to_string();
            bytes.push(3);
            bytes.push(u8::try_from(name.len()).expect("a name is short"));
            bytes.extend(name.as_bytes());
        }
    }
    bytes.extend(to.port.to_be_bytes());
    bytes
}
