//! The way to a provider: one request, one answer whose body comes in pieces.

use std::error::Error;

use bytes::Bytes;
use http::{HeaderValue, Request, Response};
use http_body::Body;

/// Whatever went wrong on the way.
pub type TransportError = Box<dyn Error + Send + Sync>;

/// Sends requests to where models are: a gateway in this process, or a connection
/// to one. It knows the host; requests name only a path. It must neither follow
/// redirects nor repeat requests, and should break off when its future is dropped.
pub trait Transport: Send + Sync {
    type Body: Body<Data = Bytes, Error: Into<TransportError>> + Send + Unpin;

    fn send(
        &self,
        request: Request<Bytes>,
    ) -> impl Future<Output = Result<Response<Self::Body>, TransportError>> + Send;
}

impl<T: Transport> Transport for std::sync::Arc<T> {
    type Body = T::Body;

    fn send(
        &self,
        request: Request<Bytes>,
    ) -> impl Future<Output = Result<Response<Self::Body>, TransportError>> + Send {
        (**self).send(request)
    }
}

/// What to show to who is asked. It is never printed.
#[derive(Debug, Clone)]
pub struct Credential(HeaderValue);

/// A credential with characters that no header can carry.
#[derive(Debug, thiserror::Error)]
#[error("the credential cannot stand in a header")]
pub struct UnfitCredential;

impl Credential {
    /// `before` is what stands before it in the header.
    pub(crate) fn header(&self, before: &str) -> HeaderValue {
        let value = [before.as_bytes(), self.0.as_bytes()].concat();
        // Both halves are valid in a header, so the whole is.
        let mut value = HeaderValue::from_bytes(&value).unwrap_or_else(|_| self.0.clone());
        value.set_sensitive(true);
        value
    }
}

impl TryFrom<&str> for Credential {
    type Error = UnfitCredential;

    fn try_from(text: &str) -> Result<Self, UnfitCredential> {
        let mut value = HeaderValue::from_str(text).map_err(|_| UnfitCredential)?;
        value.set_sensitive(true);
        Ok(Self(value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_credential_is_never_printed() {
        let credential = Credential::try_from("sk-canary").unwrap();
        let header = credential.header("Bearer ");
        assert_eq!(header.as_bytes(), b"Bearer sk-canary");
        assert!(!format!("{credential:?} {header:?}").contains("canary"));
        assert!(Credential::try_from("two\nlines").is_err());
    }
}
