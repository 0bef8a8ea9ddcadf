//! Query strings.

use std::collections::BTreeMap;
use std::str::FromStr;

use axum::extract::FromRequestParts;
use belljar_sandboxes::{LONGEST_PAGE, Problem};
use http::request::Parts;

use crate::error::RestError;

/// The parameters of a request, by name. Of one that comes twice, the last.
#[derive(Debug, Default)]
pub(crate) struct Query(BTreeMap<String, String>);

impl<S: Send + Sync> FromRequestParts<S> for Query {
    type Rejection = RestError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, RestError> {
        Ok(Self::parse(parts.uri.query().unwrap_or_default())?)
    }
}

impl Query {
    fn parse(text: &str) -> Result<Self, Problem> {
        form(text).map(Self)
    }

    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// A parameter that is a number or the like.
    pub(crate) fn parsed<T: FromStr>(&self, name: &str) -> Result<Option<T>, Problem> {
        let parse = |text: &str| {
            let wrong = || Problem::invalid(format!("{text:?} cannot be the parameter {name}"));
            text.parse().map_err(|_| wrong())
        };
        self.get(name).map(parse).transpose()
    }

    /// How many items a page shall have.
    pub(crate) fn limit(&self) -> Result<usize, Problem> {
        Ok(self.parsed("limit")?.unwrap_or(LONGEST_PAGE))
    }

    /// The pairs of a metadata filter, which clients encode three times: each
    /// key and value, the pairs as a form, and that form as one parameter. The
    /// last is undone already.
    pub(crate) fn metadata(&self) -> Result<BTreeMap<String, String>, Problem> {
        let pairs = form(self.get("metadata").unwrap_or_default())?;
        let plain = |text: &str| percent(text, Plus::IsPlus);
        pairs.iter().map(|(key, value)| Ok((plain(key)?, plain(value)?))).collect()
    }
}

/// What a plus sign stands for: itself, or a space as in forms.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Plus {
    IsPlus,
    IsSpace,
}

fn form(text: &str) -> Result<BTreeMap<String, String>, Problem> {
    let plain = |text: &str| percent(text, Plus::IsSpace);
    let pairs = text.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        Ok((plain(key)?, plain(value)?))
    });
    pairs.collect()
}

fn percent(text: &str, plus: Plus) -> Result<String, Problem> {
    let wrong = || Problem::invalid(format!("{text:?} is not percent-encoded UTF-8"));
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let mut digit = || char::from(rest.next()?).to_digit(16);
                let (high, low) = (digit().ok_or_else(wrong)?, digit().ok_or_else(wrong)?);
                u8::try_from(high * 16 + low).map_err(|_| wrong())?
            }
            b'+' if plus == Plus::IsSpace => b' ',
            other => other,
        });
    }
    String::from_utf8(bytes).map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As it was seen on the wire, from both SDKs.
    #[test]
    fn metadata_is_encoded_three_times() {
        let query = "metadata=k%2525201%3Dv%252526%25253D%2525C3%2525A9&limit=5";
        let query = Query::parse(query).unwrap();
        let want = BTreeMap::from([("k 1".to_owned(), "v&=é".to_owned())]);
        assert_eq!(query.metadata().unwrap(), want);
        assert_eq!(query.limit().unwrap(), 5);
    }

    #[test]
    fn several_pairs_and_plus_signs_survive() {
        // {"a+b": "1", "c": "x y"}: inner a%2Bb and x%20y, then as a form.
        let form = "a%252Bb=1&c=x%2520y";
        let encoded = form.replace('%', "%25").replace('=', "%3D").replace('&', "%26");
        let query = Query::parse(&format!("metadata={encoded}")).unwrap();
        let want = BTreeMap::from(
            [("a+b", "1"), ("c", "x y")].map(|(key, value)| (key.to_owned(), value.to_owned())),
        );
        assert_eq!(query.metadata().unwrap(), want);
    }

    #[test]
    fn commas_may_be_escaped() {
        let escaped = Query::parse("state=running%2Cpaused").unwrap();
        let plain = Query::parse("state=running,paused").unwrap();
        assert_eq!(escaped.get("state"), plain.get("state"));
    }

    #[test]
    fn what_is_not_encoded_properly_is_refused() {
        for query in ["a=%", "a=%2", "a=%zz", "a=%ff", "limit=%+1"] {
            assert!(Query::parse(query).is_err(), "{query}");
        }
        assert!(Query::parse("limit=many").unwrap().limit().is_err());
        assert!(Query::parse("limit=-1").unwrap().limit().is_err());
    }

    #[test]
    fn an_empty_parameter_counts_as_none() {
        let query = Query::parse("nextToken=&&state").unwrap();
        assert_eq!((query.get("nextToken"), query.get("state")), (None, None));
    }
}
