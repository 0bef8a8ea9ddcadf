//! The API of a forge, as far as merge requests need it.

use std::sync::Arc;
use std::time::Duration;

use ::http::header::{self, HeaderMap, HeaderValue};
use ::http::{Method, Request, StatusCode};
use belljar_domain::network::Host;
use bytes::Bytes;
use http_body_util::{BodyExt as _, Limited};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio_rustls::rustls::ClientConfig;

use super::Refused;
use crate::body::Inner;
use crate::operations::config::{Credential, ForgeKind, Settings, Shape};
use crate::operations::connect::{AskError, InvalidServerName, Pool};
use crate::operations::operation::{InvalidOperation, Upstream};
use crate::operations::refuse::Refusal;
use crate::operations::secret::{Secret, SecretError};

/// Of an answer of the forge.
const MAX_ANSWER: usize = 4 << 20;
/// Pages of open merge requests that are searched, and what each has.
const MAX_PAGES: u32 = 20;
const PAGE: usize = 50;
/// Of what the forge says about a refusal.
const MAX_MESSAGE: usize = 300;

/// A forge, ready to be asked.
#[derive(Debug)]
pub(super) struct Forge {
    kind: ForgeKind,
    upstream: Upstream,
    pool: Pool,
    secret: Option<Secret>,
    timeout: Duration,
}

/// The reason that a forge cannot be asked.
#[derive(Debug, thiserror::Error)]
pub(crate) enum InvalidForge {
    #[error("`api` is not usable")]
    Api(#[source] Box<InvalidOperation>),
    #[error("cannot check the certificate of the API")]
    ServerName(#[source] InvalidServerName),
    #[error("the credential cannot be used")]
    Secret(#[source] SecretError),
}

/// A merge request that is to be.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Draft {
    pub(super) title: String,
    /// The branch with the changes.
    pub(super) source: String,
    /// The branch that they are for; absent: the default branch.
    #[serde(default)]
    pub(super) target: Option<String>,
    #[serde(default)]
    pub(super) body: String,
}

/// A merge request that is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct MergeRequest {
    pub(super) number: u64,
    pub(super) url: String,
    pub(super) is_new: bool,
}

impl Forge {
    pub(super) fn new(
        kind: ForgeKind,
        settings: &Settings,
        tls: &Arc<ClientConfig>,
    ) -> Result<Self, InvalidForge> {
        let url = settings.api.clone().unwrap_or_else(|| usual_api(kind, &settings.upstream));
        let upstream = Upstream::new(&url, settings.plaintext);
        let upstream = upstream.map_err(|error| InvalidForge::Api(Box::new(error)))?;
        let timeout = Duration::from_secs(settings.timeouts.connect_seconds);
        let pool = upstream.pool(tls, timeout).map_err(InvalidForge::ServerName)?;
        let secret = settings.credential.as_ref().map(|credential| {
            Secret::read(&Credential {
                shape: Some(match kind {
                    ForgeKind::Gitea => Shape::Token,
                    ForgeKind::Github | ForgeKind::Gitlab => Shape::Bearer,
                }),
                header: None,
                user: None,
                ..credential.clone()
            })
        });
        let secret = secret.transpose().map_err(InvalidForge::Secret)?;
        let timeout = Duration::from_secs(settings.timeouts.answer_seconds);
        Ok(Self { kind, upstream, pool, secret, timeout })
    }

    pub(super) fn place(&self) -> (Host, u16) {
        (self.upstream.host.clone(), self.upstream.port)
    }

    /// Creates a merge request, or finds the open one of the same branches.
    pub(super) async fn open(
        &self,
        repository: &str,
        draft: &Draft,
        target: &str,
    ) -> Result<MergeRequest, Refusal> {
        let path = self.path(repository);
        let Draft { title, source, body, .. } = draft;
        let new = match self.kind {
            ForgeKind::Gitea | ForgeKind::Github => {
                json!({ "title": title, "head": source, "base": target, "body": body })
            }
            ForgeKind::Gitlab => json!({
                "title": title, "source_branch": source, "target_branch": target,
                "description": body,
            }),
        };
        let (status, answer) = self.ask(Method::POST, &path, None, Some(&new)).await?;
        match (status.as_u16(), self.kind) {
            (200 | 201, _) => {
                return self.read(&answer, true).ok_or(Refusal::Upstream);
            }
            (401, _) => return Err(Refusal::Credential),
            (409, _) | (422, ForgeKind::Github) => {}
            _ => return Err(self.refused(status, &answer)),
        }
        match self.find(repository, source, target).await? {
            Some(found) => Ok(found),
            None => Err(self.refused(status, &answer)),
        }
    }

    /// The open merge request of two branches of one repository.
    async fn find(
        &self,
        repository: &str,
        source: &str,
        target: &str,
    ) -> Result<Option<MergeRequest>, Refusal> {
        let path = self.path(repository);
        let (from, to) = (quoted(source), quoted(target));
        let owner = repository.split('/').next().unwrap_or_default();
        for page in 1..=MAX_PAGES {
            let query = match self.kind {
                ForgeKind::Gitea => format!("state=open&limit={PAGE}&page={page}"),
                ForgeKind::Github => format!(
                    "state=open&per_page={PAGE}&page={page}&head={owner}%3A{from}&base={to}"
                ),
                ForgeKind::Gitlab => format!(
                    "state=opened&per_page={PAGE}&page={page}&source_branch={from}\
                     &target_branch={to}"
                ),
            };
            let (status, answer) = self.ask(Method::GET, &path, Some(&query), None).await?;
            if status != StatusCode::OK {
                return Err(self.refused(status, &answer));
            }
            let list = answer.as_array().ok_or(Refusal::Upstream)?;
            let is_it = |one: &&Value| self.is_of(one, repository, source, target);
            if let Some(found) = list.iter().find(is_it) {
                return Ok(self.read(found, false));
            }
            if list.len() < PAGE {
                break;
            }
        }
        Ok(None)
    }

    fn is_of(&self, one: &Value, repository: &str, source: &str, target: &str) -> bool {
        match self.kind {
            ForgeKind::Gitea | ForgeKind::Github => {
                let text = |path| one.pointer(path).and_then(Value::as_str);
                let is_own = text("/head/repo/full_name")
                    .is_some_and(|name| name.eq_ignore_ascii_case(repository));
                text("/head/ref") == Some(source) && text("/base/ref") == Some(target) && is_own
            }
            ForgeKind::Gitlab => {
                let is_own = one["source_project_id"] == one["target_project_id"];
                one["source_branch"] == source && one["target_branch"] == target && is_own
            }
        }
    }

    fn read(&self, one: &Value, is_new: bool) -> Option<MergeRequest> {
        let (number, url) = match self.kind {
            ForgeKind::Gitea | ForgeKind::Github => (&one["number"], &one["html_url"]),
            ForgeKind::Gitlab => (&one["iid"], &one["web_url"]),
        };
        let url = url.as_str()?.to_owned();
        let is_safe = self.secret.as_ref().is_none_or(|key| !key.needle().is_in(url.as_bytes()));
        is_safe.then_some(MergeRequest { number: number.as_u64()?, url, is_new })
    }

    fn refused(&self, status: StatusCode, answer: &Value) -> Refusal {
        let said = &answer["message"];
        let said = said.as_str().map_or_else(|| said.to_string(), str::to_owned);
        let is_safe = self.secret.as_ref().is_none_or(|key| !key.needle().is_in(said.as_bytes()));
        let is_told = is_safe && said != "null" && !said.is_empty();
        let said: String = said.chars().filter(|c| !c.is_control()).take(MAX_MESSAGE).collect();
        let message = if is_told { format!(": {said}") } else { String::new() };
        Refused::Forge { status: status.as_u16(), message }.into()
    }

    fn path(&self, repository: &str) -> String {
        match self.kind {
            ForgeKind::Gitea | ForgeKind::Github => format!("/repos/{repository}/pulls"),
            ForgeKind::Gitlab => {
                format!("/projects/{}/merge_requests", quoted(repository))
            }
        }
    }

    async fn ask(
        &self,
        method: Method,
        path: &str,
        query: Option<&str>,
        body: Option<&Value>,
    ) -> Result<(StatusCode, Value), Refusal> {
        let body = body.map(|body| Bytes::from(body.to_string())).unwrap_or_default();
        let mut request = Request::new(Inner::from(body));
        *request.method_mut() = method;
        *request.uri_mut() = self.upstream.uri(path, query).map_err(|_| Refusal::Path)?;
        let json = HeaderValue::from_static("application/json");
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, self.upstream.host_header.clone());
        headers.insert(header::ACCEPT, json.clone());
        headers.insert(header::CONTENT_TYPE, json);
        headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        headers.insert(header::USER_AGENT, HeaderValue::from_static("belljar"));
        if let Some(secret) = &self.secret {
            secret.add_to(&mut headers);
        }
        *request.headers_mut() = headers;
        let answer = self.pool.ask(request, self.timeout).await.map_err(|error| match error {
            AskError::Connect(_) => Refusal::Unreachable,
            AskError::Answer(_) => Refusal::Upstream,
            AskError::Timeout => Refusal::UpstreamTimeout,
        })?;
        let status = answer.status();
        if status.is_redirection() {
            return Err(Refusal::Redirect);
        }
        let body = Limited::new(answer.into_body(), MAX_ANSWER).collect();
        let body = tokio::time::timeout(self.timeout, body).await;
        let body = body.map_err(|_| Refusal::UpstreamTimeout)?.map_err(|_| Refusal::BadAnswer)?;
        // An error may be a page.
        Ok((status, serde_json::from_slice(&body.to_bytes()).unwrap_or_default()))
    }
}

fn usual_api(kind: ForgeKind, upstream: &str) -> String {
    let base = upstream.trim_end_matches('/');
    match kind {
        ForgeKind::Gitea => format!("{base}/api/v1"),
        ForgeKind::Gitlab => format!("{base}/api/v4"),
        ForgeKind::Github if base == "https://github.com" => "https://api.github.com".to_owned(),
        ForgeKind::Github => format!("{base}/api/v3"),
    }
}

/// Text in a query, or as one segment of a path.
fn quoted(text: &str) -> String {
    text.bytes().fold(String::new(), |mut quoted, byte| {
        use std::fmt::Write as _;
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            quoted.push(char::from(byte));
        } else {
            let _ = write!(quoted, "%{byte:02X}");
        }
        quoted
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn apis_are_where_the_forges_have_them() {
        let of = |kind, url| usual_api(kind, url);
        assert_eq!(of(ForgeKind::Gitea, "https://g.example/"), "https://g.example/api/v1");
        assert_eq!(of(ForgeKind::Gitlab, "https://g.example"), "https://g.example/api/v4");
        assert_eq!(of(ForgeKind::Github, "https://github.com"), "https://api.github.com");
        assert_eq!(of(ForgeKind::Github, "https://g.example"), "https://g.example/api/v3");
        assert_eq!(quoted("agent/fix+1"), "agent%2Ffix%2B1");
    }
}
