//! Escapes in texts.

/// Appends `raw` without its escapes. What no text can hold (half a surrogate
/// pair, an escape that is none) becomes U+FFFD.
pub(super) fn unescape(raw: &[u8], out: &mut Vec<u8>) {
    let mut rest = raw;
    while let Some(place) = memchr::memchr(b'\\', rest) {
        out.extend_from_slice(&rest[..place]);
        rest = one(&rest[place + 1..], out);
    }
    out.extend_from_slice(rest);
}

fn one<'a>(rest: &'a [u8], out: &mut Vec<u8>) -> &'a [u8] {
    let Some((&mark, rest)) = rest.split_first() else { return rest };
    let plain = match mark {
        b'n' => b'\n',
        b't' => b'\t',
        b'r' => b'\r',
        b'b' => 8,
        b'f' => 12,
        b'u' => return unicode(rest, out),
        b'"' | b'\\' | b'/' => mark,
        _ => {
            push(char::REPLACEMENT_CHARACTER, out);
            return rest;
        }
    };
    out.push(plain);
    rest
}

fn unicode<'a>(rest: &'a [u8], out: &mut Vec<u8>) -> &'a [u8] {
    let Some((high, rest)) = digits(rest) else {
        push(char::REPLACEMENT_CHARACTER, out);
        return rest;
    };
    if (0xd800..0xdc00).contains(&high)
        && let Some((low @ 0xdc00..0xe000, after)) = rest.strip_prefix(b"\\u").and_then(digits)
    {
        let code = 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00);
        push(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER), out);
        return after;
    }
    push(char::from_u32(high).unwrap_or(char::REPLACEMENT_CHARACTER), out);
    rest
}

fn digits(text: &[u8]) -> Option<(u32, &[u8])> {
    let (digits, rest) = text.split_at_checked(4)?;
    let digit = |&byte: &u8| char::from(byte).to_digit(16);
    let code = digits.iter().try_fold(0, |code, byte| Some(code * 16 + digit(byte)?))?;
    Some((code, rest))
}

fn push(char: char, out: &mut Vec<u8>) {
    out.extend_from_slice(char.encode_utf8(&mut [0; 4]).as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_what_other_readers_make_of_them() {
        for raw in [r"plain", r"a\nb\t\\\/", r"\u00e9\u20AC", r"\ud83d\ude00!", r"end\\"] {
            let want: String = serde_json::from_str(&format!("\"{raw}\"")).unwrap();
            let mut out = Vec::new();
            unescape(raw.as_bytes(), &mut out);
            assert_eq!(out, want.as_bytes(), "{raw}");
        }
    }

    #[test]
    fn what_is_no_escape_shows_as_a_mark() {
        for raw in [r"\ud800", r"\ud800\n", r"\q", r"\u12", r"\uzzzz", r"\ude00\ud83d"] {
            let mut out = Vec::new();
            unescape(raw.as_bytes(), &mut out);
            assert!(String::from_utf8(out).unwrap().contains('\u{fffd}'), "{raw}");
        }
    }
}
