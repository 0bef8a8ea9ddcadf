//! Where in a request a token is shown.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderMap, header};

/// What a request shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Presented<'a> {
    Nothing,
    /// Several, or something that is no text: nobody honest sends that.
    Confused,
    One(Cow<'a, str>),
}

/// `Authorization: Bearer`, the password of `Authorization: Basic`, or `x-api-key`: exactly one of
/// them, once. Two of them
/// would be read differently by somebody.
pub(crate) fn presented(headers: &HeaderMap) -> Presented<'_> {
    let bearer = headers.get_all(header::AUTHORIZATION).iter();
    let keys = headers.get_all("x-api-key").iter();
    let mut all = bearer.map(|value| (value, true)).chain(keys.map(|value| (value, false)));
    let Some((value, is_bearer)) = all.next() else { return Presented::Nothing };
    if all.next().is_some() {
        return Presented::Confused;
    }
    let Ok(text) = value.to_str() else { return Presented::Confused };
    if !is_bearer {
        return Presented::One(text.into());
    }
    match text.split_once(' ') {
        Some((scheme, token)) if scheme.eq_ignore_ascii_case("bearer") => {
            Presented::One(token.into())
        }
        Some((scheme, pair)) if scheme.eq_ignore_ascii_case("basic") => {
            let pair = STANDARD.decode(pair).ok().and_then(|pair| String::from_utf8(pair).ok());
            let password = pair.as_deref().and_then(|pair| pair.split_once(':'));
            password
                .map_or(Presented::Confused, |(_, token)| Presented::One(token.to_owned().into()))
        }
        _ => Presented::Confused,
    }
}
