//! OTLP in protobuf.
//!
//! No more than the wire format is read: fields with their numbers and types. The three requests
//! have the same shape down to the resource, so one reader serves all.
//!
//! ```text
//!   request: 1 = resource spans | metrics | logs
//!     1 = resource: 1 = attributes, 2 = dropped count, 3 = entities
//!     2 = scopes
//!     3 = schema URL
//! ```

use super::schema::{Field as Known, Message, RESOURCE};
use super::{Attribute, MAX_RESOURCES, Malformed, Signal, Value, is_reserved};

/// Wire types of protobuf.
const VARINT: u64 = 0;
const FIXED_64: u64 = 1;
const BYTES: u64 = 2;
const FIXED_32: u64 = 5;

/// One field of a message.
struct Field<'a> {
    number: u32,
    /// Of a field with a length.
    bytes: Option<&'a [u8]>,
    /// All of it, with its tag.
    raw: &'a [u8],
}

struct Fields<'a> {
    rest: &'a [u8],
}

/// The request, with our attributes in each resource and nowhere else.
pub(super) fn attributed(
    signal: Signal,
    request: &[u8],
    own: &[Attribute],
) -> Result<Vec<u8>, Malformed> {
    let own = encode(own);
    let mut out = Vec::with_capacity(request.len() + own.len() + 16);
    let mut resources = 0;
    for field in (Fields { rest: request }) {
        let field = field?;
        if field.number != 1 {
            return Err(Malformed::Field);
        }
        resources += 1;
        if resources > MAX_RESOURCES {
            return Err(Malformed::Resources);
        }
        write(1, &of_resource(signal, field.bytes()?, &own)?, &mut out);
    }
    Ok(out)
}

fn of_resource(signal: Signal, bytes: &[u8], own: &[u8]) -> Result<Vec<u8>, Malformed> {
    let (mut resource, mut rest) = (Vec::new(), Vec::with_capacity(bytes.len()));
    for field in (Fields { rest: bytes }) {
        let field = field?;
        match field.number {
            // Said twice, protobuf adds one to the other.
            1 => {
                let inner = field.bytes()?;
                if (Fields { rest: inner }).any(|one| one.is_ok_and(|one| one.number > 3)) {
                    return Err(Malformed::Field);
                }
                rewrite(&RESOURCE, inner, &mut resource)?;
            }
            2 => {
                let mut scopes = Vec::with_capacity(field.raw.len());
                rewrite(signal.scopes(), field.bytes()?, &mut scopes)?;
                write(2, &scopes, &mut rest);
            }
            3 => rest.extend_from_slice(field.raw),
            _ => return Err(Malformed::Field),
        }
    }
    resource.extend_from_slice(own);
    let mut out = Vec::with_capacity(resource.len() + rest.len() + 16);
    write(1, &resource, &mut out);
    out.extend_from_slice(&rest);
    Ok(out)
}

/// Copies a message without attributes whose names are ours. The tables of messages have no
/// circle, so it goes no deeper than they do.
fn rewrite(message: &Message, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), Malformed> {
    for field in (Fields { rest: bytes }) {
        let field = field?;
        match message.field(field.number) {
            None => out.extend_from_slice(field.raw),
            Some(Known::Attribute) => {
                if !has_reserved_name(field.bytes()?)? {
                    out.extend_from_slice(field.raw);
                }
            }
            Some(Known::Message(inner)) => {
                let mut copy = Vec::with_capacity(field.raw.len());
                rewrite(inner, field.bytes()?, &mut copy)?;
                write(field.number, &copy, out);
            }
        }
    }
    Ok(())
}

/// Looks at each key of a `KeyValue`: readers differ in which of two counts.
fn has_reserved_name(attribute: &[u8]) -> Result<bool, Malformed> {
    let mut is_ours = false;
    for field in (Fields { rest: attribute }) {
        let field = field?;
        if field.number == 1 {
            let key = std::str::from_utf8(field.bytes()?).map_err(|_| Malformed::Protobuf)?;
            is_ours |= is_reserved(key);
        }
    }
    Ok(is_ours)
}

impl<'a> Field<'a> {
    fn bytes(&self) -> Result<&'a [u8], Malformed> {
        self.bytes.ok_or(Malformed::Protobuf)
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<Field<'a>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let field = read(self.rest);
        // After an error nothing is read.
        let length = field.as_ref().map_or(self.rest.len(), |field| field.raw.len());
        self.rest = self.rest.get(length..).unwrap_or_default();
        Some(field)
    }
}

fn read(message: &[u8]) -> Result<Field<'_>, Malformed> {
    let (tag, length) = varint(message)?;
    // Writers make tags as short as they can be, and readers differ about others.
    let number = u32::try_from(tag >> 3).ok().filter(|number| *number < 1 << 29);
    let is_shortest = length == 1 || message.get(length - 1) != Some(&0);
    let number = number.filter(|number| *number > 0 && is_shortest);
    let number = number.ok_or(Malformed::Protobuf)?;
    let rest = message.get(length..).unwrap_or_default();
    let (content, bytes) = match tag & 7 {
        VARINT => (varint(rest)?.1, None),
        FIXED_64 => (8, None),
        FIXED_32 => (4, None),
        BYTES => {
            let (count, prefix) = varint(rest)?;
            let count = usize::try_from(count).map_err(|_| Malformed::Protobuf)?;
            let end = prefix.checked_add(count).ok_or(Malformed::Protobuf)?;
            (end, Some(rest.get(prefix..end).ok_or(Malformed::Protobuf)?))
        }
        // Groups, which OpenTelemetry has none of.
        _ => return Err(Malformed::Protobuf),
    };
    let raw = message.get(..length + content).ok_or(Malformed::Protobuf)?;
    Ok(Field { number, bytes, raw })
}

/// A number, and how many bytes it takes.
fn varint(bytes: &[u8]) -> Result<(u64, usize), Malformed> {
    let mut value = 0_u64;
    for (at, byte) in bytes.iter().take(10).enumerate() {
        let bits = u64::from(byte & 0x7f);
        // The tenth has one bit of 64.
        if at == 9 && bits > 1 {
            return Err(Malformed::Protobuf);
        }
        value |= bits << (7 * at);
        if byte & 0x80 == 0 {
            return Ok((value, at + 1));
        }
    }
    Err(Malformed::Protobuf)
}

fn put(mut number: u64, out: &mut Vec<u8>) {
    loop {
        let [low, ..] = number.to_le_bytes();
        number >>= 7;
        if number == 0 {
            return out.push(low & 0x7f);
        }
        out.push(low | 0x80);
    }
}

fn write(number: u32, bytes: &[u8], out: &mut Vec<u8>) {
    put(u64::from(number) << 3 | BYTES, out);
    put(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

/// Our attributes as fields of a resource.
fn encode(attributes: &[Attribute]) -> Vec<u8> {
    let mut out = Vec::new();
    for Attribute { name, value } in attributes {
        let mut any = Vec::new();
        match value {
            Value::Text(text) => write(1, text.as_bytes(), &mut any),
            Value::Number(number) => {
                put(3 << 3 | VARINT, &mut any);
                put(u64::from(*number), &mut any);
            }
        }
        let mut pair = Vec::new();
        write(1, name.as_bytes(), &mut pair);
        write(2, &any, &mut pair);
        write(1, &pair, &mut out);
    }
    out
}

#[cfg(test)]
mod tests;
