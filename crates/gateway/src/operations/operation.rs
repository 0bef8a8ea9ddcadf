//! An operation, checked and ready.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use belljar_domain::network::{Host, InvalidHost};
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{HeaderValue, Method, Uri};
use tokio_rustls::rustls::ClientConfig;

use super::Desk;
use super::config::{Kind, Name, Settings, Timeouts};
use super::connect::{InvalidServerName, Pool};
use super::git::{Git, InvalidGit};
use super::model::{InvalidModel, Model};
use super::otlp::Otlp;
use super::secret::{Secret, SecretError};
use crate::budget::{Account, Limit};

/// What providers take at most.
const USUAL_BODY: u64 = 32 << 20;
/// Exporters send batches of some hundred kilobytes.
const USUAL_TELEMETRY: u64 = 4 << 20;
const LARGEST_BODY: u64 = 256 << 20;
const USUAL_ANSWER: u64 = 256 << 20;
/// Packs are streamed, and repositories are large.
const USUAL_PUSH: u64 = 256 << 20;
const LARGEST_PUSH: u64 = 4 << 30;
const USUAL_CLONE: u64 = 2 << 30;

/// What sandboxes may ask for, with all that is needed to do it.
#[derive(Debug)]
pub(crate) struct Operation {
    pub(crate) name: Name,
    pub(crate) upstream: Upstream,
    pub(crate) secret: Option<Secret>,
    pub(crate) pool: Pool,
    pub(crate) does: Does,
    pub(crate) max_body: u64,
    pub(crate) max_answer: u64,
    pub(crate) timeouts: Timeouts,
    pub(crate) accounts: Vec<Arc<Account>>,
    pub(crate) tenant_limit: Option<Limit>,
}

#[derive(Debug)]
pub(crate) enum Does {
    Model(Box<Model>),
    Http(Http),
    Otlp(Otlp),
    Git(Box<Git>),
}

/// What may be asked of an upstream that is no model.
#[derive(Debug)]
pub(crate) struct Http {
    methods: Vec<Method>,
    paths: Vec<String>,
}

/// Where requests go, whatever they say themselves.
pub(crate) struct Upstream {
    pub(crate) host: Host,
    pub(crate) port: u16,
    scheme: Scheme,
    authority: Authority,
    pub(crate) host_header: HeaderValue,
    /// Without a slash at its end.
    base: String,
}

/// Why an operation cannot be offered.
#[derive(Debug, thiserror::Error)]
pub(crate) enum InvalidOperation {
    #[error("`{0}` is not a URL of a host with a path")]
    Upstream(String),
    #[error("`{url}` has no valid host")]
    Host { url: String, source: InvalidHost },
    #[error("`{0}` is not encrypted; set `plaintext = true` to allow it")]
    Plaintext(String),
    #[error("cannot check the upstream's certificate")]
    ServerName(#[source] InvalidServerName),
    #[error("the credential cannot be used")]
    Secret(#[source] SecretError),
    #[error("`{0}` is not valid for this kind of operation")]
    OtherKind(&'static str),
    #[error("`{0}` is missing or empty")]
    Missing(&'static str),
    #[error("`{0}` is not a method in upper case")]
    Method(String),
    #[error("`{0}` is not a normalized path that begins with `/`")]
    Path(String),
    #[error("`max_body` can be at most {0}")]
    Body(u64),
    #[error("the model operation cannot be offered")]
    Model(#[source] InvalidModel),
    #[error("the git operation cannot be offered")]
    Git(#[source] InvalidGit),
}

impl Operation {
    pub(crate) fn new(
        name: &Name,
        settings: &Settings,
        tls: &Arc<ClientConfig>,
        desk: &Desk,
    ) -> Result<Self, InvalidOperation> {
        let upstream = Upstream::new(&settings.upstream, settings.plaintext)?;
        let secret = settings.credential.as_ref().map(Secret::read).transpose();
        let timeout = Duration::from_secs(settings.timeouts.connect_seconds);
        let pool = upstream.pool(tls, timeout).map_err(InvalidOperation::ServerName)?;
        let (usual, largest) = match settings.kind {
            Kind::Otlp => (USUAL_TELEMETRY, LARGEST_BODY),
            Kind::Git => (USUAL_PUSH, LARGEST_PUSH),
            Kind::Model | Kind::Http => (USUAL_BODY, LARGEST_BODY),
        };
        let max_body = settings.max_body.unwrap_or(usual);
        if max_body > largest {
            return Err(InvalidOperation::Body(largest));
        }
        let usual_answer = if settings.kind == Kind::Git { USUAL_CLONE } else { USUAL_ANSWER };
        if settings.kind != Kind::Git {
            only_for_git(settings)?;
        }
        let does = match settings.kind {
            Kind::Model => {
                only_for_other(&[
                    ("methods", settings.methods.is_some()),
                    ("paths", settings.paths.is_some()),
                    ("tenants", settings.tenants.is_some()),
                ])?;
                Does::Model(Box::new(Model::new(settings).map_err(InvalidOperation::Model)?))
            }
            Kind::Http => {
                only_for_models(settings)?;
                only_for_other(&[("tenants", settings.tenants.is_some())])?;
                Does::Http(Http::new(settings)?)
            }
            Kind::Otlp => {
                only_for_models(settings)?;
                only_for_other(&[
                    ("methods", settings.methods.is_some()),
                    ("paths", settings.paths.is_some()),
                ])?;
                Does::Otlp(Otlp::new(name, settings, tls, desk)?)
            }
            Kind::Git => {
                only_for_models(settings)?;
                only_for_other(&[
                    ("methods", settings.methods.is_some()),
                    ("paths", settings.paths.is_some()),
                    ("tenants", settings.tenants.is_some()),
                ])?;
                Does::Git(Box::new(Git::new(settings, tls).map_err(InvalidOperation::Git)?))
            }
        };
        Ok(Self {
            name: name.clone(),
            secret: secret.map_err(InvalidOperation::Secret)?,
            upstream,
            pool,
            does,
            max_body,
            max_answer: settings.max_answer.unwrap_or(usual_answer),
            timeouts: settings.timeouts,
            accounts: desk.operation_accounts(name, settings.budget.map(Limit::from)),
            tenant_limit: settings.tenant_budget.map(Limit::from),
        })
    }
}

fn only_for_models(settings: &Settings) -> Result<(), InvalidOperation> {
    only_for_other(&[
        ("dialects", settings.dialects.is_some()),
        ("models", settings.models.is_some()),
        ("aliases", settings.aliases.is_some()),
        ("pin", settings.pin.is_some()),
        ("prices", settings.prices.is_some()),
        ("max_output_tokens", settings.max_output_tokens.is_some()),
    ])
}

fn only_for_git(settings: &Settings) -> Result<(), InvalidOperation> {
    only_for_other(&[
        ("repositories", settings.repositories.is_some()),
        ("branches", settings.branches.is_some()),
        ("default_branch", settings.default_branch.is_some()),
        ("force", settings.force.is_some()),
        ("deletions", settings.deletions.is_some()),
        ("approve", settings.approve.is_some()),
        ("approval_seconds", settings.approval_seconds.is_some()),
        ("forge", settings.forge.is_some()),
        ("api", settings.api.is_some()),
    ])
}

fn only_for_other(keys: &[(&'static str, bool)]) -> Result<(), InvalidOperation> {
    match keys.iter().find(|(_, is_there)| *is_there) {
        Some((key, _)) => Err(InvalidOperation::OtherKind(key)),
        None => Ok(()),
    }
}

impl Http {
    fn new(settings: &Settings) -> Result<Self, InvalidOperation> {
        let some = |list: &Option<Vec<String>>, key| match list {
            Some(list) if !list.is_empty() => Ok(list.clone()),
            _ => Err(InvalidOperation::Missing(key)),
        };
        let methods = some(&settings.methods, "methods")?.into_iter().map(|text| {
            let is_word = !text.is_empty() && text.bytes().all(|b| b.is_ascii_uppercase());
            let method = Method::from_bytes(text.as_bytes()).ok();
            let fits = |method: &Method| is_word && method != Method::CONNECT;
            method.filter(fits).ok_or(InvalidOperation::Method(text))
        });
        let paths = some(&settings.paths, "paths")?;
        if let Some(wrong) = paths.iter().find(|path| !is_plain(path)) {
            return Err(InvalidOperation::Path(wrong.clone()));
        }
        Ok(Self { methods: methods.collect::<Result<_, _>>()?, paths })
    }

    pub(crate) fn allows_method(&self, method: &Method) -> bool {
        self.methods.contains(method)
    }

    pub(crate) fn allows_path(&self, path: &str) -> bool {
        let is_below = |prefix: &String| {
            let prefix = prefix.trim_end_matches('/');
            path.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        is_plain(path) && self.paths.iter().any(is_below)
    }
}

/// Whether everybody reads this path alike: nothing to resolve, nothing to
/// unquote that would change its segments.
fn is_plain(path: &str) -> bool {
    let Some(rest) = path.strip_prefix('/') else { return false };
    let mut segments = rest.split('/').peekable();
    while let Some(segment) = segments.next() {
        let is_last = segments.peek().is_none();
        let lower = segment.to_ascii_lowercase();
        let is_special = segment == "." || segment == ".." || (segment.is_empty() && !is_last);
        let is_quoted = ["%2e", "%2f", "%5c", "%00", "%25", "%0a", "%0d"]
            .iter()
            .any(|quoted| lower.contains(quoted));
        let is_odd = segment.bytes().any(|b| !b.is_ascii_graphic() || b"\\;?#".contains(&b));
        if is_special || is_quoted || is_odd {
            return false;
        }
    }
    true
}

impl Upstream {
    pub(super) fn new(url: &str, is_plaintext_meant: bool) -> Result<Self, InvalidOperation> {
        let wrong = || InvalidOperation::Upstream(url.to_owned());
        let parts = url.parse::<Uri>().map_err(|_| wrong())?.into_parts();
        let (Some(scheme), Some(authority)) = (parts.scheme, parts.authority) else {
            return Err(wrong());
        };
        let usual_port = match scheme.as_str() {
            "https" => 443,
            "http" if is_plaintext_meant => 80,
            "http" => return Err(InvalidOperation::Plaintext(url.to_owned())),
            _ => return Err(wrong()),
        };
        let path = parts.path_and_query.unwrap_or_else(|| PathAndQuery::from_static("/"));
        let base = path.path().trim_end_matches('/').to_owned();
        let is_plain_base = base.is_empty() || is_plain(&base);
        let has_extra = path.query().is_some() || url.contains('#');
        if has_extra || !is_plain_base || authority.as_str().contains('@') {
            return Err(wrong());
        }
        let host = authority.host().parse();
        let host = host.map_err(|source| InvalidOperation::Host { url: url.to_owned(), source })?;
        let port = authority.port_u16().unwrap_or(usual_port);
        let host_header = HeaderValue::try_from(authority.as_str()).map_err(|_| wrong())?;
        Ok(Self { host, port, scheme, authority, host_header, base })
    }

    /// The scheme and the host that clients outside would ask, with the path.
    pub(super) fn url(&self) -> String {
        format!("{self:?}")
    }

    /// Connections to it alone.
    pub(super) fn pool(
        &self,
        tls: &Arc<ClientConfig>,
        timeout: Duration,
    ) -> Result<Pool, InvalidServerName> {
        let tls = (self.scheme == Scheme::HTTPS).then(|| Arc::clone(tls));
        Pool::new(self.authority.host(), self.port, tls, timeout)
    }

    /// `path` begins with `/`.
    pub(crate) fn uri(&self, path: &str, query: Option<&str>) -> Result<Uri, http::Error> {
        let whole = match query {
            Some(query) => format!("{}{path}?{query}", self.base),
            None => format!("{}{path}", self.base),
        };
        Uri::builder()
            .scheme(self.scheme.clone())
            .authority(self.authority.clone())
            .path_and_query(whole)
            .build()
    }
}

impl fmt::Debug for Upstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}{}", self.scheme, self.authority, self.base)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn upstreams_are_places_and_nothing_else() {
        let upstream = Upstream::new("https://api.example.com/v2/", false).unwrap();
        assert_eq!(
            upstream.uri("/v1/x", Some("a=b")).unwrap(),
            "https://api.example.com/v2/v1/x?a=b"
        );
        assert_eq!((upstream.port, upstream.host.to_string().as_str()), (443, "api.example.com"));
        for wrong in [
            "api.example.com",
            "ftp://example.com",
            "https://user:pass@example.com",
            "https://example.com/?x=1",
            "https://example.com/a/../b",
            "https://127.1/",
            "http://example.com",
        ] {
            assert!(Upstream::new(wrong, false).is_err(), "{wrong}");
        }
        assert_eq!(Upstream::new("http://127.0.0.1:8080", true).unwrap().port, 8080);
    }

    #[test]
    fn paths_are_compared_by_whole_segments() {
        let http = Http { methods: vec![Method::GET], paths: vec!["/query".into(), "/a/".into()] };
        for right in ["/query", "/query/", "/query/x", "/a", "/a/b%20c"] {
            assert!(http.allows_path(right), "{right}");
        }
        for wrong in [
            "/",
            "/queryx",
            "/query/../admin",
            "/query/%2e%2e/admin",
            "/query//x",
            "//query",
            "/query/..",
            "/query/.",
            "/query\\x",
            "/query%2fx",
            "/query/a;b",
            "query",
            "/query/%00",
            "/query/%252e%252e/admin",
            "/admin?/query",
        ] {
            assert!(!http.allows_path(wrong), "{wrong}");
        }
        assert!(http.allows_method(&Method::GET) && !http.allows_method(&Method::HEAD));
    }
}
