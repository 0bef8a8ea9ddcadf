//! Keys under which something is done once.

use std::fmt;

/// 1 to 255 characters of `a-z`, `0-9` and `-`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Key(String);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a valid idempotency key: use 1 to 255 characters of a-z, 0-9 and -")]
pub struct UnusableKey(String);

impl Key {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for Key {
    type Error = UnusableKey;

    fn try_from(text: String) -> Result<Self, UnusableKey> {
        let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        if (1..=255).contains(&text.len()) && text.bytes().all(fits) {
            Ok(Self(text))
        } else {
            Err(UnusableKey(text))
        }
    }
}

impl std::str::FromStr for Key {
    type Err = UnusableKey;

    fn from_str(text: &str) -> Result<Self, UnusableKey> {
        text.to_owned().try_into()
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_server_would_not_take_is_no_key() {
        assert_eq!("turn-3".parse::<Key>().unwrap().as_str(), "turn-3");
        for text in ["", "A", "a b", "a\r\nb", &"a".repeat(256)] {
            assert!(text.parse::<Key>().is_err(), "{text:?}");
        }
    }
}
