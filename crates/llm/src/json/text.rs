//! Escapes in strings.

/// Resolves the escapes of a string whose form has been checked.
pub(super) fn resolve(inner: &[u8]) -> String {
    let mut out = Vec::with_capacity(inner.len());
    let mut rest = inner;
    while let Some(at) = memchr::memchr(b'\\', rest) {
        let (plain, escaped) = rest.split_at(at);
        out.extend_from_slice(plain);
        let (character, used) = escape(escaped);
        let mut utf8 = [0; 4];
        out.extend_from_slice(character.encode_utf8(&mut utf8).as_bytes());
        rest = escaped.get(used..).unwrap_or_default();
    }
    out.extend_from_slice(rest);
    String::from_utf8(out).unwrap_or_default()
}

/// Reads the escape that `from` begins with; also how long it is.
fn escape(from: &[u8]) -> (char, usize) {
    let simple = match from.get(1) {
        Some(b'n') => '\n',
        Some(b't') => '\t',
        Some(b'r') => '\r',
        Some(b'b') => '\u{8}',
        Some(b'f') => '\u{c}',
        Some(b'u') => return unicode(from),
        Some(other) => char::from(*other),
        None => char::REPLACEMENT_CHARACTER,
    };
    (simple, 2.min(from.len()))
}

fn unicode(from: &[u8]) -> (char, usize) {
    let Some(first) = unit(from) else { return (char::REPLACEMENT_CHARACTER, from.len()) };
    if let Some(character) = char::from_u32(first) {
        return (character, 6);
    }
    let second =
        if (0xd800..0xdc00).contains(&first) { from.get(6..).and_then(unit) } else { None };
    match second {
        Some(second @ 0xdc00..0xe000) => {
            let code = 0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00);
            (char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER), 12)
        }
        _ => (char::REPLACEMENT_CHARACTER, 6),
    }
}

/// The number in `\uXXXX`, if that is what `from` begins with.
fn unit(from: &[u8]) -> Option<u32> {
    let digits = from.strip_prefix(b"\\u")?.get(..4)?;
    u32::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}
