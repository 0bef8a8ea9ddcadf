//! As whom something is done.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use belljar_domain::User;
use belljar_sandboxes::{Kind, Problem};
use http::{HeaderMap, header};

/// The user of a name; without one, the template's own.
pub(super) fn named(name: Option<&str>, default: User) -> Result<User, Problem> {
    match name {
        None => Ok(default),
        Some("user") => Ok(User::User),
        Some("root") => Ok(User::Root),
        Some(other) => {
            let message = format!("error looking up user '{other}': user: unknown user {other}");
            Err(Problem::new(Kind::Unauthenticated, "unknown_user", message))
        }
    }
}

/// The user that an RPC names in its `Authorization`.
pub(super) fn of(headers: &HeaderMap, default: User) -> Result<User, Problem> {
    let text = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let Some(coded) = text.and_then(|text| text.strip_prefix("Basic ")) else {
        return Ok(default);
    };
    let decoded =
        STANDARD.decode(coded.trim()).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    let name = decoded.as_deref().map(|pair| pair.split_once(':').map_or(pair, |(name, _)| name));
    named(Some(name.unwrap_or_default()), default).map_err(|mut problem| {
        problem.message = format!("invalid username: '{}'", name.unwrap_or_default());
        problem
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(value: &str) -> HeaderMap {
        HeaderMap::from_iter([(header::AUTHORIZATION, value.parse().unwrap())])
    }

    #[test]
    fn a_name_is_taken_from_basic_authorization() {
        assert_eq!(of(&HeaderMap::new(), User::Root), Ok(User::Root));
        assert_eq!(of(&headers("Bearer x"), User::User), Ok(User::User));
        assert_eq!(of(&headers("Basic cm9vdDo="), User::User), Ok(User::Root));
        assert_eq!(of(&headers("Basic dXNlcjo="), User::Root), Ok(User::User));
        let problem = of(&headers("Basic bm9ib2R5Og=="), User::User).unwrap_err();
        assert_eq!(problem.kind, Kind::Unauthenticated);
        assert_eq!(problem.message, "invalid username: 'nobody'");
    }
}
