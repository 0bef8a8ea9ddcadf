//! Classes of bytes, as a table: heads are read often.

const TOKEN: u8 = 1;
const VALUE: u8 = 2;
const TARGET: u8 = 4;

const CLASSES: [u8; 256] = {
    let mut classes = [0; 256];
    let mut at = 0_u8;
    loop {
        let is_mark = matches!(
            at,
            b'!' | b'#'
                | b'$'
                | b'%'
                | b'&'
                | b'\''
                | b'*'
                | b'+'
                | b'-'
                | b'.'
                | b'^'
                | b'_'
                | b'`'
                | b'|'
                | b'~'
        );
        let mut class = 0;
        if at.is_ascii_alphanumeric() || is_mark {
            class |= TOKEN;
        }
        if at == b'\t' || (at >= b' ' && at != 0x7f) {
            class |= VALUE;
        }
        // What clients send unescaped although RFC 3986 has no place for it is
        // passed on where it has no second reading. A fragment is never sent, a
        // backslash is a slash to some, and the rest ends a URL in texts.
        let is_odd = matches!(at, b'#' | b'\\' | b'"' | b'<' | b'>' | b'`');
        if at.is_ascii_graphic() && !is_odd {
            class |= TARGET;
        }
        classes[at as usize] = class;
        if at == u8::MAX {
            break classes;
        }
        at += 1;
    }
};

fn all(bytes: &[u8], class: u8) -> bool {
    bytes.iter().all(|b| CLASSES[usize::from(*b)] & class != 0)
}

pub(super) fn is_token(bytes: &[u8]) -> bool {
    !bytes.is_empty() && all(bytes, TOKEN)
}

/// A field's value, without a control character but for the tab.
pub(super) fn is_value(bytes: &[u8]) -> bool {
    all(bytes, VALUE)
}

pub(super) fn is_value_byte(byte: u8) -> bool {
    CLASSES[usize::from(byte)] & VALUE != 0
}

/// A path and query.
pub(super) fn is_target(bytes: &[u8]) -> bool {
    all(bytes, TARGET)
}

/// Without spaces and tabs around it.
pub(super) fn trim(mut bytes: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] | [rest @ .., b' ' | b'\t'] = bytes {
        bytes = rest;
    }
    bytes
}
