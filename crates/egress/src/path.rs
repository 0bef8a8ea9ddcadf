//! Paths, as far as rules speak of them.
//!
//! A path is compared byte by byte as it was sent, and sent as it was compared.
//! That is only right if no server can read another path out of the same bytes,
//! so everything that servers are known to decode, fold or cut is refused
//! instead of being normalised here: our reading would be one more.

/// Whether every server reads this path in the same way.
///
/// `path` is without its query.
pub(crate) fn is_plain(path: &str) -> bool {
    path.starts_with('/')
        && !path.contains("//")
        // Some servers cut parameters off each segment before they look at it:
        // `/..;/` is a way up there.
        && !path.bytes().any(|b| matches!(b, b'\\' | b';' | b'?' | b'#' | 0..=0x20 | 0x7f..))
        && path.split('/').all(|segment| !is_way(segment))
        && escapes_are_plain(path.as_bytes())
}

/// `.` and `..`. Escaped dots are refused with all needless escapes.
fn is_way(segment: &str) -> bool {
    matches!(segment, "." | "..")
}

/// Whether all escapes are whole, and none stands for a character that means
/// something in a path or could have been written as itself.
fn escapes_are_plain(path: &[u8]) -> bool {
    let mut at = 0;
    while let Some(found) = path[at..].iter().position(|b| *b == b'%') {
        let Some([high, low]) = path.get(at + found + 1..at + found + 3) else { return false };
        let (Some(high), Some(low)) = (hex(*high), hex(*low)) else { return false };
        let byte = high << 4 | low;
        let is_needless = byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_' | b'~');
        // An escaped `%` is the first half of an attack on whoever decodes twice.
        let is_risky = matches!(byte, b'/' | b'\\' | b'%' | b';' | b'?' | b'#' | 0..0x20 | 0x7f);
        if is_needless || is_risky {
            return false;
        }
        at += found + 3;
    }
    true
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok())
}

/// Whether `path` is `prefix` or lies below it, by whole segments.
pub(crate) fn is_within(path: &str, prefix: &str) -> bool {
    // An empty prefix is a mistake, not everything.
    let begins = prefix.starts_with('/');
    let prefix = prefix.strip_suffix('/').unwrap_or(prefix);
    begins && path.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_is_whole_segments() {
        for (path, prefix, want) in [
            ("/simple", "/simple", true),
            ("/simple/", "/simple", true),
            ("/simple/a/b", "/simple", true),
            ("/simple/a", "/simple/", true),
            ("/simple", "/simple/", true),
            ("/simplest", "/simple", false),
            ("/Simple", "/simple", false),
            ("/", "/simple", false),
            ("/a", "/", true),
            ("/", "/", true),
            ("/a/simple", "/simple", false),
            ("/a", "", false),
            ("/a", "a", false),
        ] {
            assert_eq!(is_within(path, prefix), want, "{path} {prefix}");
        }
    }

    #[test]
    fn ordinary_paths_are_plain() {
        for path in [
            "/",
            "/simple/",
            "/@scope/name",
            "/@scope%2Bname",
            "/a%20b",
            "/v1/models/a:b",
            "/caf%C3%A9",
            "/packages/ab/cd/name-1.0.tar.gz",
            "/a/...",
            "/.well-known/x",
            "/a.b/..c",
            "/a$b&c=d,e+f!g*h(i)",
        ] {
            assert!(is_plain(path), "{path}");
        }
    }

    #[test]
    fn what_servers_read_differently_is_not_plain() {
        for path in [
            "",
            "a",
            "*",
            "/a/../b",
            "/..",
            "/.",
            "/./a",
            "/a/..",
            "/a//b",
            "//",
            "/a%2fb",
            "/a%2Fb",
            "/a/%2e%2e/b",
            "/a/%2E./b",
            "/a/.%2e",
            "/a%5cb",
            "/a\\b",
            "/a%00",
            "/a%0d%0a",
            "/a%7f",
            "/a%252e",
            "/a%25",
            "/%61",
            "/a%",
            "/a%2",
            "/a%zz",
            "/a%+1",
            "/a/..;/b",
            "/a;x=1",
            "/a%3bx",
            "/a b",
            "/a\0",
            "/a?b",
            "/a#b",
            "/a%3fb",
            "/a%23b",
            "/é",
        ] {
            assert!(!is_plain(path), "{path:?}");
        }
    }
}
