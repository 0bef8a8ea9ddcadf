//! Secrets by name.

use std::collections::BTreeSet;

use super::{Edits, PLACEHOLDER, fields};

/// Names whose values are never stored, and do not count when requests are
/// compared. Upper case, `-` and `_` make no
/// difference in parameters and fields: `apiKey` is `api_key`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Names {
    /// Besides those with a word such as `token`, `secret` or `cookie` in them.
    pub headers: BTreeSet<String>,
    /// Of queries, forms and JSON.
    pub fields: BTreeSet<String>,
    /// Of queries, forms and JSON, where the value is long enough for a secret.
    /// A model calls each word of its answer a `token`.
    pub long_fields: BTreeSet<String>,
    /// Of queries and forms only, where the value is long enough for a secret.
    pub long_parameters: BTreeSet<String>,
}

/// What a secret has at least, behind a name that also has other uses.
const LONG: usize = 16;

impl Default for Names {
    fn default() -> Self {
        let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        Self {
            headers: set(&["x-goog-api-key", "x-auth", "authentication", "x-amz-signature"]),
            fields: set(&[
                "access_token",
                "refresh_token",
                "id_token",
                "auth_token",
                "session_token",
                "security_token",
                "bearer_token",
                "client_secret",
                "client_assertion",
                "api_key",
                "api_secret",
                "secret_key",
                "secret_access_key",
                "private_key",
                "password",
                "passwd",
                "passphrase",
                "authorization",
                "x_amz_signature",
                "x_amz_credential",
                "x_amz_security_token",
                "x_goog_signature",
                "x_goog_credential",
                "aws_access_key_id",
                "code_verifier",
            ]),
            long_fields: set(&["token", "secret"]),
            long_parameters: set(&["key", "sig", "signature", "code", "assertion", "auth"]),
        }
    }
}

impl Names {
    pub(crate) fn is_secret_header(&self, name: &str) -> bool {
        let words: Vec<_> = name.split(['-', '_']).collect();
        let telling = |word: &&str| {
            matches!(
                *word,
                "authorization"
                    | "cookie"
                    | "token"
                    | "secret"
                    | "password"
                    | "apikey"
                    | "credential"
            )
        };
        self.headers.contains(name)
            || words.iter().any(telling)
            || words.windows(2).any(|pair| matches!(pair, ["api" | "access", "key"]))
    }

    pub(crate) fn is_secret_field(&self, name: &[u8], value: &[u8]) -> bool {
        is_among(&self.fields, name) || value.len() >= LONG && is_among(&self.long_fields, name)
    }

    fn is_secret_parameter(&self, name: &[u8], value: &[u8]) -> bool {
        self.is_secret_field(name, value)
            || value.len() >= LONG && is_among(&self.long_parameters, name)
    }

    pub(crate) fn in_json(&self, content: &[u8]) -> Edits {
        fields::edits(self, content)
    }

    /// `a=1&token=…`
    pub(crate) fn in_parameters(&self, content: &[u8]) -> Edits {
        let mut edits = Edits::default();
        let mut from = 0;
        for parameter in content.split(|b| *b == b'&') {
            let equals = parameter.iter().position(|b| *b == b'=').unwrap_or(parameter.len());
            if let (name, [b'=', value @ ..]) = parameter.split_at(equals)
                && !value.is_empty()
                && self.is_secret_parameter(&decoded(name), value)
            {
                let begin = from + equals + 1;
                edits.push(begin..begin + value.len(), PLACEHOLDER);
            }
            from += parameter.len() + 1;
        }
        edits
    }

    /// Queries of URLs inside other text, such as a redirect to a signed one.
    pub(crate) fn in_links(&self, content: &[u8]) -> Edits {
        let is_end = |b: u8| b <= b' ' || b"&\"\\<>#".contains(&b);
        let mut edits = Edits::default();
        let mut at = 0;
        while let Some(here @ [first, ..]) = content.get(at..) {
            // JSON writers that fear HTML write `&` as an escape.
            let opening = match first {
                b'?' | b'&' => 1,
                b'\\' if here.starts_with(b"\\u0026") => 6,
                _ => {
                    at += 1;
                    continue;
                }
            };
            at += opening;
            let rest = content.get(at..).unwrap_or_default();
            let word = |b: &u8| b.is_ascii_alphanumeric() || b"-_.%".contains(b);
            let end = rest.iter().position(|b| !word(b)).unwrap_or(rest.len());
            let (name, [b'=', value @ ..]) = rest.split_at(end) else { continue };
            if name.is_empty() {
                continue;
            }
            let begin = at + name.len() + 1;
            let end = value.iter().position(|b| is_end(*b)).unwrap_or(value.len());
            let (value, _) = value.split_at(end);
            if !value.is_empty() && self.is_secret_parameter(&decoded(name), value) {
                edits.push(begin..begin + value.len(), PLACEHOLDER);
            }
            at = begin + value.len();
        }
        edits
    }
}

/// Keeps the cookie's name and attributes: clients read those.
pub(crate) fn in_set_cookie(value: &[u8]) -> Vec<u8> {
    let end = value.iter().position(|b| *b == b';').unwrap_or(value.len());
    let (pair, attributes) = value.split_at(end);
    let begin = pair.iter().position(|b| *b == b'=').map_or(0, |at| at + 1);
    [pair.split_at(begin).0, PLACEHOLDER.as_bytes(), attributes].concat()
}

fn is_among(names: &BTreeSet<String>, name: &[u8]) -> bool {
    fn bare(name: &[u8]) -> impl Iterator<Item = u8> {
        name.iter().filter(|b| !matches!(b, b'-' | b'_')).map(u8::to_ascii_lowercase)
    }
    names.iter().any(|known| bare(known.as_bytes()).eq(bare(name)))
}

/// Without percent signs. Nothing else is changed: this only finds names.
fn decoded(name: &[u8]) -> Vec<u8> {
    percent_encoding::percent_decode(name).collect()
}

#[cfg(test)]
mod tests {
    use super::decoded;

    #[test]
    fn only_two_hexadecimal_digits_are_an_escape() {
        assert_eq!(decoded(b"acces%73%5ftoken"), b"access_token");
        for plain in ["%+f", "%-1", "% 5", "%g0", "%f", "%", "a%%"] {
            assert_eq!(decoded(plain.as_bytes()), plain.as_bytes());
        }
    }
}
