//! Asks the server which branch is a repository's default one.

use ::http::{HeaderMap, Request};
use bytes::BytesMut;
use http_body_util::BodyExt as _;

use super::pktline::{self, Packet};
use super::route::{Route, Service};
use super::{to_upstream, uri};
use crate::body::Inner;
use crate::operations::connect::AskError;
use crate::operations::refuse::Refusal;
use crate::operations::serve::Asked;

/// The first reference is the first line, or the second. No line is longer.
const MAX_READ: usize = 128 << 10;

/// The default branch; none: the server does not say, as for a repository without commits.
pub(super) async fn find(asked: &Asked, route: &Route) -> Result<Option<String>, Refusal> {
    let operation = &asked.operation;
    let mut request = Request::new(Inner::Empty);
    let query = format!("service={}", Service::Upload.name());
    *request.uri_mut() = uri(asked, route, "info/refs", Some(&query))?;
    *request.headers_mut() = to_upstream(asked, &HeaderMap::new(), Service::Upload);
    let timeout = operation.answer_timeout();
    let answer = operation.pool.ask(request, timeout).await.map_err(|error| match error {
        AskError::Connect(_) => Refusal::Unreachable,
        AskError::Answer(_) => Refusal::Upstream,
        AskError::Timeout => Refusal::UpstreamTimeout,
    })?;
    match answer.status().as_u16() {
        200 => {}
        401 | 403 => return Err(Refusal::Credential),
        300..=399 => return Err(Refusal::Redirect),
        _ => return Err(Refusal::Upstream),
    }
    let mut body = answer.into_body();
    let reading = async {
        let mut buffer = BytesMut::new();
        loop {
            while let Some(packet) = pktline::take(&mut buffer).map_err(|_| Refusal::BadAnswer)? {
                match packet {
                    Packet::Line(line) if !line.starts_with(b"# service=") => {
                        return Ok(symbolic(&line));
                    }
                    Packet::Line(_) | Packet::Flush => {}
                }
            }
            let Some(frame) = body.frame().await else { return Ok(None) };
            let Ok(data) = frame.map_err(|_| Refusal::Upstream)?.into_data() else { continue };
            buffer.extend_from_slice(&data);
            if buffer.len() > MAX_READ {
                return Err(Refusal::BadAnswer);
            }
        }
    };
    let read = tokio::time::timeout(timeout, reading).await;
    read.unwrap_or(Err(Refusal::UpstreamTimeout))
}

/// Reads the capabilities of the first reference.
fn symbolic(line: &[u8]) -> Option<String> {
    let (_, capabilities) = std::str::from_utf8(line).ok()?.split_once('\0')?;
    let mut capabilities = capabilities.split_ascii_whitespace();
    capabilities.find_map(|word| word.strip_prefix("symref=HEAD:refs/heads/")).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_branch_is_what_head_stands_for() {
        let line = b"1111 HEAD\0multi_ack symref=HEAD:refs/heads/trunk agent=git/2\n";
        assert_eq!(symbolic(line).as_deref(), Some("trunk"));
        assert_eq!(symbolic(b"0000 capabilities^{}\0multi_ack\n"), None);
        assert_eq!(symbolic(b"1111 refs/heads/symref=HEAD:refs/heads/x"), None);
    }
}
