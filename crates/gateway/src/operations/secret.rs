//! Credentials: where they come from, and how they are kept from coming back.
//!
//! A credential is in exactly one place that leaves this process: a header of a
//! request to its own upstream. Nothing here prints it.

use std::fmt;
use std::fs;
use std::io;
use std::path::PathBuf;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::header::{AUTHORIZATION, HeaderName, HeaderValue};

use super::config::{Credential, Shape};
use super::echo::Needle;

/// Shorter ones would be found by chance in what upstreams say.
const SHORTEST: usize = 8;
const LONGEST: usize = 8192;

/// A credential, ready to be added.
pub(crate) struct Secret {
    header: HeaderName,
    value: HeaderValue,
    needle: Needle,
}

/// Why a credential cannot be used. Says where it was looked for, never what was
/// found there.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SecretError {
    #[error("a credential needs either `file` or `env`")]
    Source,
    #[error("a credential needs either `as` or `header`")]
    Shape,
    #[error("`user` goes with `as = \"basic\"`, and has visible ASCII without a colon")]
    User,
    #[error("the header `{0}` cannot carry a credential")]
    Header(String),
    #[error("cannot read the credential in `{path}`")]
    Read { path: PathBuf, source: io::Error },
    #[error("the environment variable `{0}` is missing or not text")]
    Environment(String),
    #[error("{0} has {1} bytes; a credential has {SHORTEST} to {LONGEST}")]
    Length(Place, usize),
    #[error("{0} has characters other than visible ASCII")]
    Letters(Place),
}

/// Where a credential is found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Place {
    File(PathBuf),
    Variable(String),
}

impl Secret {
    /// Reads it now. A file is read again when settings are.
    pub(crate) fn read(credential: &Credential) -> Result<Self, SecretError> {
        let (text, place) = match (&credential.file, &credential.env) {
            (Some(path), None) => {
                let text = fs::read_to_string(path);
                let text =
                    text.map_err(|source| SecretError::Read { path: path.clone(), source })?;
                (text, Place::File(path.clone()))
            }
            (None, Some(name)) => {
                let text = std::env::var(name);
                let text = text.map_err(|_| SecretError::Environment(name.clone()))?;
                (text, Place::Variable(name.clone()))
            }
            _ => return Err(SecretError::Source),
        };
        Self::new(text.trim_end_matches(['\n', '\r']), place, credential)
    }

    fn new(text: &str, place: Place, credential: &Credential) -> Result<Self, SecretError> {
        if !(SHORTEST..=LONGEST).contains(&text.len()) {
            return Err(SecretError::Length(place, text.len()));
        }
        if !text.bytes().all(|b| b.is_ascii_graphic()) {
            return Err(SecretError::Letters(place));
        }
        if credential.user.is_some() && credential.shape != Some(Shape::Basic) {
            return Err(SecretError::User);
        }
        let (header, value) = match (credential.shape, &credential.header) {
            (Some(Shape::Bearer), None) => (AUTHORIZATION, format!("Bearer {text}")),
            (Some(Shape::Basic), None) => {
                let user = credential.user.as_deref().unwrap_or("belljar");
                if !user.bytes().all(|b| b.is_ascii_graphic() && b != b':') {
                    return Err(SecretError::User);
                }
                (AUTHORIZATION, format!("Basic {}", STANDARD.encode(format!("{user}:{text}"))))
            }
            (Some(Shape::Token), None) => (AUTHORIZATION, format!("token {text}")),
            (Some(Shape::ApiKey), None) => (HeaderName::from_static("x-api-key"), text.to_owned()),
            (None, Some(name)) => (header(name)?, text.to_owned()),
            _ => return Err(SecretError::Shape),
        };
        let mut value = HeaderValue::try_from(value).map_err(|_| SecretError::Letters(place))?;
        value.set_sensitive(true);
        let needle = Needle::new(Bytes::copy_from_slice(text.as_bytes()));
        Ok(Self { header, value, needle })
    }

    pub(crate) fn add_to(&self, headers: &mut http::HeaderMap) {
        headers.insert(self.header.clone(), self.value.clone());
    }

    pub(crate) fn needle(&self) -> &Needle {
        &self.needle
    }
}

/// What frames a request, or says where it goes, is not for credentials.
fn header(name: &str) -> Result<HeaderName, SecretError> {
    let wrong = || SecretError::Header(name.to_owned());
    let header = HeaderName::try_from(name).map_err(|_| wrong())?;
    let taken =
        ["host", "content-length", "transfer-encoding", "connection", "upgrade", "te", "expect"];
    if taken.contains(&header.as_str()) { Err(wrong()) } else { Ok(header) }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "the credential in `{}`", path.display()),
            Self::Variable(name) => write!(f, "the credential in the variable `{name}`"),
        }
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secret").field("header", &self.header).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn credential(file: Option<PathBuf>, env: Option<&str>) -> Credential {
        let env = env.map(str::to_owned);
        Credential { file, env, shape: Some(Shape::Bearer), header: None, user: None }
    }

    #[test]
    fn a_file_is_read_and_never_shown() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("key");
        fs::write(&path, "sk-canary-123\n").unwrap();
        let secret = Secret::read(&credential(Some(path), None)).unwrap();
        assert!(!format!("{secret:?}").contains("canary"));
        let mut headers = http::HeaderMap::new();
        secret.add_to(&mut headers);
        assert_eq!(headers["authorization"], "Bearer sk-canary-123");
        assert!(!format!("{headers:?}").contains("canary"));
    }

    #[test]
    fn passwords_go_with_a_name() {
        let place = || Place::Variable("KEY".into());
        let basic = Credential { shape: Some(Shape::Basic), ..credential(None, None) };
        let named = Credential { user: Some("bot".into()), ..basic.clone() };
        let mut headers = http::HeaderMap::new();
        Secret::new("password", place(), &named).unwrap().add_to(&mut headers);
        assert_eq!(headers["authorization"], "Basic Ym90OnBhc3N3b3Jk");
        for user in ["a:b", "a b", "\n"] {
            let wrong = Credential { user: Some(user.into()), ..basic.clone() };
            assert!(matches!(Secret::new("password", place(), &wrong), Err(SecretError::User)));
        }
        let bearer = Credential { shape: Some(Shape::Bearer), ..named };
        assert!(matches!(Secret::new("password", place(), &bearer), Err(SecretError::User)));
    }

    #[test]
    fn what_is_wrong_is_said_without_the_secret() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("key");
        for content in
            ["short", "with space inside", "two\nlines-of-key", "\u{e9}\u{e9}\u{e9}\u{e9}"]
        {
            fs::write(&path, content).unwrap();
            let error = Secret::read(&credential(Some(path.clone()), None)).unwrap_err();
            assert!(!format!("{error} {error:?}").contains(content), "{content}");
        }
        let short = Secret::new("short", Place::Variable("KEY".into()), &credential(None, None));
        assert_eq!(
            short.unwrap_err().to_string(),
            "the credential in the variable `KEY` has 5 bytes; a credential has 8 to 8192"
        );
        assert!(matches!(
            Secret::read(&credential(Some(path.clone()), Some("A"))),
            Err(SecretError::Source)
        ));
        assert!(matches!(Secret::read(&credential(None, None)), Err(SecretError::Source)));
        let absent = credential(None, Some("BELLJAR_NO_SUCH_VARIABLE"));
        assert!(matches!(Secret::read(&absent), Err(SecretError::Environment(_))));
        let both = Credential { header: Some("x-key".into()), ..credential(Some(path), None) };
        let place = || Place::Variable("KEY".into());
        assert!(Secret::new("abcdefgh", place(), &both).is_err());
        let host = Credential { shape: None, header: Some("Host".into()), ..both };
        assert!(matches!(Secret::new("abcdefgh", place(), &host), Err(SecretError::Header(_))));
    }
}
