//! Asks the server which branch is a repository's default one.

use std::ops::ControlFlow;

use ::http::{HeaderMap, Request};
use bytes::BytesMut;
use http_body_util::BodyExt as _;

use super::pktline::{self, Packet};
use super::route::{Route, Service};
use super::{to_upstream, uri};
use crate::body::Inner;
use crate::budget::Amount;
use crate::operations::connect::AskError;
use crate::operations::http::reserve;
use crate::operations::refuse::Refusal;
use crate::operations::serve::Asked;

/// Bytes of a list of references. Without a default branch it is read to its end.
const MAX_READ: usize = 16 << 20;

/// The default branch; none: the server does not say, as for a repository without commits. The
/// lookup counts as a request in the budgets.
pub(super) async fn find(asked: &Asked, route: &Route) -> Result<Option<String>, Refusal> {
    let one = Amount { requests: 1, ..Amount::default() };
    let mut reservation = reserve(asked, one).await?;
    reservation.dispatch();
    let found = look_up(asked, route).await;
    // Nothing was sent to a server that cannot be reached.
    let is_sent = !matches!(found, Err(Refusal::Unreachable));
    reservation.settle(if is_sent { one } else { Amount::default() });
    found
}

async fn look_up(asked: &Asked, route: &Route) -> Result<Option<String>, Refusal> {
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
        let (mut list, mut read) = (List::default(), 0);
        loop {
            let frame = body.frame().await.ok_or(Refusal::BadAnswer)?;
            let Ok(data) = frame.map_err(|_| Refusal::Upstream)?.into_data() else { continue };
            read += data.len();
            if read > MAX_READ {
                return Err(Refusal::BadAnswer);
            }
            if let ControlFlow::Break(found) = list.read(&data)? {
                return Ok(found);
            }
        }
    };
    let read = tokio::time::timeout(timeout, reading).await;
    read.unwrap_or(Err(Refusal::UpstreamTimeout))
}

/// A reader of a list of references.
#[derive(Debug, Default)]
struct List {
    buffer: BytesMut,
    /// The next flush ends the head, not the list.
    is_in_head: bool,
    has_references: bool,
}

impl List {
    /// Reads the next bytes. Breaks with the default branch, or with none after the last flush.
    fn read(&mut self, bytes: &[u8]) -> Result<ControlFlow<Option<String>>, Refusal> {
        self.buffer.extend_from_slice(bytes);
        while let Some(packet) = pktline::take(&mut self.buffer).map_err(|_| Refusal::BadAnswer)? {
            match packet {
                Packet::Line(line) if line.starts_with(b"ERR ") => return Err(Refusal::BadAnswer),
                Packet::Line(line) if line.starts_with(b"# service=") => self.is_in_head = true,
                Packet::Line(line) => {
                    // Only the first reference has capabilities.
                    let found = symbolic(&line).filter(|_| !self.has_references);
                    if found.is_some() {
                        return Ok(ControlFlow::Break(found));
                    }
                    (self.is_in_head, self.has_references) = (false, true);
                }
                Packet::Flush if self.is_in_head => self.is_in_head = false,
                Packet::Flush => return Ok(ControlFlow::Break(None)),
            }
        }
        Ok(ControlFlow::Continue(()))
    }
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

    fn list(packets: &[&str]) -> Vec<u8> {
        let mut list = Vec::new();
        for packet in packets {
            match packet.is_empty() {
                true => pktline::flush(&mut list),
                false => pktline::line(&mut list, packet.as_bytes()),
            }
        }
        list
    }

    /// GW-27/unsaid: a list that is cut does not say that there is no default branch.
    #[test]
    fn only_a_whole_list_has_no_default_branch() {
        let head = "# service=git-upload-pack\n";
        let none = list(&[head, "", "1111 refs/heads/a\0multi_ack\n", "1111 refs/heads/b\n", ""]);
        let (last, cut) = none.split_last().unwrap();
        let mut reader = List::default();
        for byte in cut {
            assert_eq!(reader.read(&[*byte]), Ok(ControlFlow::Continue(())));
        }
        assert_eq!(reader.read(&[*last]), Ok(ControlFlow::Break(None)));
        let empty = list(&[head, "", "0000 capabilities^{}\0multi_ack\n", ""]);
        assert_eq!(List::default().read(&empty), Ok(ControlFlow::Break(None)));
        let some = list(&[head, "", "1111 HEAD\0symref=HEAD:refs/heads/a\n"]);
        assert_eq!(List::default().read(&some), Ok(ControlFlow::Break(Some("a".to_owned()))));
        let error = list(&[head, "", "ERR try again\n", ""]);
        assert_eq!(List::default().read(&error), Err(Refusal::BadAnswer));
    }

    #[test]
    fn the_default_branch_is_what_head_stands_for() {
        let line = b"1111 HEAD\0multi_ack symref=HEAD:refs/heads/trunk agent=git/2\n";
        assert_eq!(symbolic(line).as_deref(), Some("trunk"));
        assert_eq!(symbolic(b"0000 capabilities^{}\0multi_ack\n"), None);
        assert_eq!(symbolic(b"1111 refs/heads/symref=HEAD:refs/heads/x"), None);
    }
}
