//! DNS messages, as far as a question and its answer go (RFC 1035, section 4).

use std::net::IpAddr;

const A: u16 = 1;
const CNAME: u16 = 5;
const AAAA: u16 = 28;

#[derive(Debug, Clone, Copy)]
pub(super) enum Code {
    Failure = 2,
    Missing = 3,
}

#[derive(Debug, Clone)]
pub(super) struct Question {
    id: [u8; 2],
    /// Whether the client wants the server to look further; it is echoed.
    recursion: bool,
    /// In lower case, without a final dot.
    pub(super) name: String,
    pub(super) kind: u16,
}

impl Question {
    pub(super) fn read(message: &[u8]) -> Option<Self> {
        let (header, mut rest) = message.split_at_checked(12)?;
        let is_question = header[2] & 0x80 == 0 && header[4..6] == [0, 1];
        if !is_question {
            return None;
        }
        let mut labels = Vec::new();
        loop {
            let (&length, after) = rest.split_first()?;
            if length == 0 {
                rest = after;
                break;
            }
            // A question has no pointers: nothing stands before it.
            let (label, after) = after.split_at_checked(length.into()).filter(|_| length < 64)?;
            labels.push(String::from_utf8_lossy(label).to_ascii_lowercase());
            rest = after;
        }
        let kind = u16::from_be_bytes(rest.get(..2)?.try_into().ok()?);
        let recursion = header[2] & 1 == 1;
        Some(Self { id: [header[0], header[1]], recursion, name: labels.join("."), kind })
    }

    /// Those of the addresses that are of the type that was asked for.
    pub(super) fn answered(&self, alias: Option<&str>, addresses: &[IpAddr]) -> Vec<u8> {
        let mut records = Vec::new();
        let owner = alias.unwrap_or(&self.name);
        if let Some(alias) = alias {
            records.push(record(&self.name, CNAME, &encoded(alias)));
        }
        for address in addresses {
            match address {
                IpAddr::V4(v4) if self.kind == A => records.push(record(owner, A, &v4.octets())),
                IpAddr::V6(v6) if self.kind == AAAA => {
                    records.push(record(owner, AAAA, &v6.octets()));
                }
                _ => {}
            }
        }
        let count = u16::try_from(records.len()).unwrap_or(u16::MAX);
        self.message(0, 0, count, &records.concat())
    }

    pub(super) fn failed(&self, code: Code) -> Vec<u8> {
        self.message(0, code as u8, 0, &[])
    }

    /// Too long for UDP, it says.
    pub(super) fn cut(&self) -> Vec<u8> {
        self.message(0x02, 0, 0, &[])
    }

    pub(super) fn renamed(&self, name: &str) -> Self {
        Self { name: name.to_owned(), ..self.clone() }
    }

    fn message(&self, flags: u8, code: u8, count: u16, records: &[u8]) -> Vec<u8> {
        let mut message = self.id.to_vec();
        // An answer, with authority; looking further is available.
        message.push(0x84 | flags | u8::from(self.recursion));
        message.push(0x80 | code);
        message.extend([0, 1]);
        message.extend(count.to_be_bytes());
        message.extend([0; 4]);
        message.extend(encoded(&self.name));
        message.extend(self.kind.to_be_bytes());
        message.extend([0, 1]);
        message.extend(records);
        message
    }
}

/// A record that nobody may keep: its time to live is nothing.
fn record(name: &str, kind: u16, data: &[u8]) -> Vec<u8> {
    let mut record = encoded(name);
    record.extend(kind.to_be_bytes());
    record.extend([0, 1, 0, 0, 0, 0]);
    record.extend(u16::try_from(data.len()).unwrap_or(0).to_be_bytes());
    record.extend(data);
    record
}

fn encoded(name: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    for label in name.split('.').filter(|label| !label.is_empty()) {
        bytes.push(u8::try_from(label.len()).unwrap_or(63));
        bytes.extend(label.as_bytes());
    }
    bytes.push(0);
    bytes
}
