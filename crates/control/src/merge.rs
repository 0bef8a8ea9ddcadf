//! Lists of all nodes, as one.
//!
//! Every node is asked for the same page; each says beside its items where they
//! stand in the order. The first so many of all of them are the page, and where
//! the last of those stands is where the next begins, on every node.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use axum::Json;
use axum::body::Body;
use axum::response::{IntoResponse as _, Response};
use belljar_domain::Tier;
use belljar_peer_proto::behalf::KEYS;
use bytes::{Bytes, BytesMut};
use futures_util::future::join_all;
use http::response::Parts;
use http::{HeaderValue, StatusCode, header};
use http_body_util::{BodyExt as _, Limited};
use serde_json::{Value, json};

use crate::believe::{agreed, own_items};
use crate::control::Control;
use crate::forward::Held;
use crate::keyed::{LONGEST, whole};
use crate::keys::Caller;
use crate::refuse::{REQUEST_ID, Refusal, Surface};

/// Says that some node did not answer, so that what is on it is not in the list.
pub(crate) const INCOMPLETE: &str = "belljar-incomplete";

/// The bytes of all nodes' answers to one request, together. A node that would exceed them
/// counts as one that did not answer.
const MAX_LIST_BYTES: usize = 32 << 20;

/// An item, and where it stands: microseconds, then its id.
type Item = ((i128, String), Value);

impl Control {
    /// What every node says to the same request.
    async fn ask_all(&self, caller: &Caller, held: &Held) -> (Vec<(Parts, Value)>, usize) {
        let left = AtomicUsize::new(MAX_LIST_BYTES);
        let asked = self.nodes().into_iter().map(async |node| {
            let response = self.forward_for(caller, &[], node, held.request()).await.ok()?;
            let (parts, body) = read_within(&left, response).await?;
            Some(own_items(node, parts, serde_json::from_slice(&body).ok()?))
        });
        agreed(join_all(asked).await)
    }

    pub(crate) async fn list(
        &self,
        surface: Surface,
        caller: &Caller,
        held: Held,
    ) -> Result<Response, Refusal> {
        let (answers, silent) = self.ask_all(caller, &held).await;
        if let Some((parts, body)) =
            answers.iter().find(|(parts, _)| parts.status != StatusCode::OK)
        {
            // What is wrong with the question is wrong on every node.
            return Ok(as_said(parts, body));
        }
        let query = held.parts.uri.query().unwrap_or_default();
        let is_paged = held.parts.uri.path() != "/sandboxes";
        let is_ascending =
            ["order=asc", "order=oldest_first"].iter().any(|one| query.contains(one));
        let limit = query.split('&').find_map(|pair| pair.strip_prefix("limit=")?.parse().ok());
        let limit = if is_paged { limit.unwrap_or(100) } else { usize::MAX };
        let more = answers.iter().any(|(parts, body)| {
            parts.headers.contains_key("x-next-token") || body["next"].is_string()
        });
        let items = answers.into_iter().flat_map(|(parts, body)| items(&parts, body)).collect();
        let (page, next) = page(items, limit, is_ascending, more);
        let mut response = match surface {
            Surface::E2b => Json(page).into_response(),
            // A page that is the last has no such field.
            Surface::Own => match &next {
                Some(next) => Json(json!({ "items": page, "next": next })).into_response(),
                None => Json(json!({ "items": page })).into_response(),
            },
        };
        let headers = response.headers_mut();
        if let Some(next) = next.filter(|_| surface == Surface::E2b)
            && let Ok(next) = HeaderValue::try_from(next)
        {
            headers.insert("x-next-token", next);
        }
        if silent > 0 {
            headers.insert(INCOMPLETE, HeaderValue::from(silent));
        }
        Ok(response)
    }

    /// Figures of several sandboxes, wherever they are.
    pub(crate) async fn figures(&self, caller: &Caller, held: Held) -> Result<Response, Refusal> {
        let (answers, silent) = self.ask_all(caller, &held).await;
        if let Some((parts, body)) =
            answers.iter().find(|(parts, _)| parts.status != StatusCode::OK)
        {
            return Ok(as_said(parts, body));
        }
        let mut all = serde_json::Map::new();
        for (_, mut body) in answers {
            if let Value::Object(some) = body["sandboxes"].take() {
                all.extend(some);
            }
        }
        let mut response = Json(json!({ "sandboxes": all })).into_response();
        if silent > 0 {
            response.headers_mut().insert(INCOMPLETE, HeaderValue::from(silent));
        }
        Ok(response)
    }

    /// Requests that wait for an approval, on all nodes and of runs, the oldest first.
    pub(crate) async fn approvals(&self, caller: &Caller, held: Held) -> Result<Response, Refusal> {
        let (answers, silent) = self.ask_all(caller, &held).await;
        if let Some((parts, body)) =
            answers.iter().find(|(parts, _)| parts.status != StatusCode::OK)
        {
            return Ok(as_said(parts, body));
        }
        let mut items = Vec::new();
        for (_, mut body) in answers {
            if let Value::Array(some) = body["items"].take() {
                items.extend(some);
            }
        }
        if self.runs().is_some() {
            let response = self.answer_runs(caller, held.request()).await?;
            if !response.status().is_success() {
                return Ok(response);
            }
            let (_, body) = whole(response).await.ok_or_else(Refusal::unknown_outcome)?;
            if let Ok(Value::Array(some)) =
                serde_json::from_slice(&body).map(|mut body: Value| body["items"].take())
            {
                items.extend(some);
            }
        }
        items.sort_by(|a, b| a["asked_at"].as_str().cmp(&b["asked_at"].as_str()));
        let mut response = Json(json!({ "items": items })).into_response();
        if silent > 0 {
            response.headers_mut().insert(INCOMPLETE, HeaderValue::from(silent));
        }
        Ok(response)
    }

    /// Says in a list of templates what all nodes offer, not only the one that answered.
    pub(crate) async fn add_offers(
        &self,
        caller: &Caller,
        response: Response,
    ) -> Result<Response, Refusal> {
        if !response.status().is_success() {
            return Ok(response);
        }
        let (mut parts, body) = whole(response).await.ok_or_else(Refusal::unknown_outcome)?;
        let body = match serde_json::from_slice::<Value>(&body) {
            Ok(Value::Object(mut list)) => {
                let now = Instant::now();
                let floor = |tier: &Tier| caller.floor.is_none_or(|floor| tier.is_at_least(floor));
                let tiers = self.roster().tiers(now).into_iter().filter(floor);
                list.insert("tiers".to_owned(), json!(tiers.collect::<Vec<_>>()));
                if let Some(max) = self.roster().max_limits(now) {
                    list.insert("max_limits".to_owned(), json!(max));
                }
                parts.headers.remove(header::CONTENT_LENGTH);
                Bytes::from(Value::Object(list).to_string())
            }
            _ => body,
        };
        Ok(Response::from_parts(parts, Body::from(body)))
    }
}

/// Reads one node's answer, as long as all of them together leave room for it.
async fn read_within(left: &AtomicUsize, response: Response) -> Option<(Parts, Bytes)> {
    let (parts, body) = response.into_parts();
    let mut body = Limited::new(body, LONGEST);
    let mut held = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.ok()?.into_data() else { continue };
        let take = |left: usize| left.checked_sub(data.len());
        left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).ok()?;
        held.extend_from_slice(&data);
    }
    Some((parts, held.freeze()))
}

/// A node's answer, which names the request that it is to.
fn as_said(parts: &Parts, body: &Value) -> Response {
    let mut response = (parts.status, Json(body)).into_response();
    for name in [REQUEST_ID, header::RETRY_AFTER] {
        if let Some(value) = parts.headers.get(&name) {
            response.headers_mut().insert(name, value.clone());
        }
    }
    response
}

fn items(parts: &Parts, mut body: Value) -> Vec<Item> {
    let keys = parts.headers.get(KEYS).and_then(|keys| keys.to_str().ok()).unwrap_or_default();
    let list = if body.is_array() { body } else { body["items"].take() };
    let Value::Array(list) = list else { return Vec::new() };
    let keys = keys.split(',').filter_map(|key| {
        let (micros, id) = key.split_once('.')?;
        Some((micros.parse().ok()?, id.to_owned()))
    });
    keys.zip(list).collect()
}

/// The first so many of all, and where the next page begins, if there is one.
fn page(
    mut items: Vec<Item>,
    limit: usize,
    is_ascending: bool,
    more: bool,
) -> (Vec<Value>, Option<String>) {
    items
        .sort_by(|(one, _), (other, _)| if is_ascending { one.cmp(other) } else { other.cmp(one) });
    let more = more || items.len() > limit;
    items.truncate(limit);
    let next = items.last().filter(|_| more).map(|((micros, id), _)| format!("{micros}.{id}"));
    (items.into_iter().map(|(_, item)| item).collect(), next)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(micros: i128, id: &str) -> Item {
        ((micros, id.to_owned()), json!(id))
    }

    #[tokio::test]
    async fn answers_of_all_nodes_share_one_bound() {
        let answer = || Response::new(axum::body::Body::from(vec![b' '; 600]));
        let left = AtomicUsize::new(1000);
        assert_eq!(read_within(&left, answer()).await.map(|(_, body)| body.len()), Some(600));
        assert!(read_within(&left, answer()).await.is_none());
        let large = Response::new(axum::body::Body::from(vec![b' '; LONGEST + 1]));
        assert!(read_within(&AtomicUsize::new(usize::MAX), large).await.is_none());
    }

    #[test]
    fn pages_of_many_nodes_follow_each_other_without_gap_or_repetition() {
        // Each node has every third; a page of two at a time.
        let nodes: Vec<Vec<Item>> = (0..3)
            .map(|node| (0..4).map(|n| item(n * 3 + node, &format!("s{}", n * 3 + node))).collect())
            .collect();
        let mut seen = Vec::new();
        let mut after: Option<i128> = None;
        loop {
            let mut asked = Vec::new();
            let mut more = false;
            for node in &nodes {
                let mut own: Vec<_> = node
                    .iter()
                    .filter(|((micros, _), _)| after.is_none_or(|after| *micros < after))
                    .cloned()
                    .collect();
                own.reverse();
                more |= own.len() > 2;
                asked.extend(own.into_iter().take(2));
            }
            let (items, next) = page(asked, 2, false, more);
            seen.extend(items);
            let Some(next) = next else { break };
            after = Some(next.split_once('.').unwrap().0.parse().unwrap());
        }
        let expected: Vec<_> = (0..12).rev().map(|n| json!(format!("s{n}"))).collect();
        assert_eq!(seen, expected);
    }
}
