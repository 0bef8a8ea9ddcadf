//! Names of records: parts of plain characters, with `/` between them.
//!
//! A name becomes a path, so nothing in it may mean anything to one.

use crate::error::ObjectsError;

const LONGEST: usize = 512;
const LONGEST_PART: usize = 200;

pub(crate) fn check(name: &str) -> Result<(), ObjectsError> {
    if name.len() <= LONGEST && name.split('/').all(is_part) {
        return Ok(());
    }
    Err(ObjectsError::Name(name.chars().take(LONGEST).collect()))
}

fn is_part(part: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    (1..=LONGEST_PART).contains(&part.len()) && part.bytes().all(plain) && !part.starts_with('.')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_leads_nowhere_else() {
        for good in ["a", "templates/abc/x-1_2.3"] {
            assert!(check(good).is_ok(), "{good}");
        }
        let long = "a".repeat(LONGEST_PART + 1);
        for bad in ["", "/a", "a/", "a//b", "..", "a/../b", ".hidden", "a b", "ä", "a\0", &long] {
            assert!(check(bad).is_err(), "{bad:?}");
        }
    }
}
