//! What control believes of a node's answers. A node may be hostile: it can say what it
//! likes about its own sandboxes, and nothing about those of other nodes.

use belljar_api::event::Event;
use belljar_domain::{NodeNumber, SandboxId};
use belljar_peer_proto::behalf::KEYS;
use http::response::Parts;
use http::{HeaderMap, HeaderValue, StatusCode};
use serde_json::Value;

use crate::route::mark;

/// Names that one answer can have control remember, and the longest of them.
const MAX_REMEMBERED_NAMES: usize = 8;
const LONGEST_NAME: usize = 256;

/// Returns true if an id says that it was made on this node.
fn is_of(node: NodeNumber, id: &str) -> bool {
    // The id of an approval is its sandbox's, a dot, and its own.
    let of_sandbox = || id.split('.').next()?.parse::<SandboxId>().ok()?.node();
    let of_snapshot = || id.strip_prefix("snap").and_then(mark);
    of_snapshot().or_else(of_sandbox) == Some(node)
}

/// Keeps of a list, or of figures by sandbox, what can be this node's.
pub(crate) fn own_items(node: NodeNumber, mut parts: Parts, mut body: Value) -> (Parts, Value) {
    if let Some(Value::Object(figures)) = body.get_mut("sandboxes") {
        figures.retain(|id, _| is_of(node, id));
    }
    let keys = parts.headers.remove(KEYS);
    let keys = keys.as_ref().and_then(|keys| keys.to_str().ok()).unwrap_or_default();
    let list = if body.is_array() { Some(&mut body) } else { body.get_mut("items") };
    if let Some(Value::Array(items)) = list {
        let id_of = |key: &str| key.split_once('.').map(|(_, id)| id.to_owned());
        let is_own = |(key, item): &(&str, Value)| {
            id_of(key).is_some_and(|id| is_of(node, &id) && names(item, &id))
        };
        let pairs = keys.split(',').zip(std::mem::take(items)).filter(is_own);
        let (keys, own): (Vec<_>, Vec<_>) = pairs.unzip();
        *items = own;
        if let Ok(keys) = HeaderValue::try_from(keys.join(",")) {
            parts.headers.insert(KEYS, keys);
        }
    }
    (parts, body)
}

/// Returns true if an item of a list is the one with this id.
fn names(item: &Value, id: &str) -> bool {
    ["id", "sandboxID", "snapshotID"].iter().any(|field| item[field] == id)
}

/// The answers that count, and how many nodes have given none. If some node can answer a
/// question, those that cannot do not decide: one alone could break every list.
pub(crate) fn agreed(answers: Vec<Option<(Parts, Value)>>) -> (Vec<(Parts, Value)>, usize) {
    let asked = answers.len();
    let answers: Vec<_> = answers.into_iter().flatten().collect();
    let is_ok = |(parts, _): &(Parts, Value)| parts.status == StatusCode::OK;
    let counted = if answers.iter().any(is_ok) {
        answers.into_iter().filter(is_ok).collect()
    } else {
        answers
    };
    let silent = asked - counted.len();
    (counted, silent)
}

/// A block of a node's event stream.
#[derive(Debug)]
pub(crate) enum NodeEvent {
    /// Nothing but a sign of life.
    KeepAlive,
    Event(Event),
}

/// Reads a block of a node's event stream, if it is about a sandbox of this node, or about none.
///
/// Only what is read may be passed on, never the block itself: clients find more line ends in
/// it than are looked for here, such as a lone `\r`, and with them other events.
pub(crate) fn read_event(node: NodeNumber, block: &[u8]) -> Option<NodeEvent> {
    let text = std::str::from_utf8(block).ok()?;
    let mut data = text.lines().filter_map(|line| line.strip_prefix("data:"));
    let Some(first) = data.next() else { return Some(NodeEvent::KeepAlive) };
    let event: Event = serde_json::from_str(first).ok()?;
    let is_believed =
        data.next().is_none() && is_of(node, &event.sandbox) && is_event_name(&event.kind);
    is_believed.then_some(NodeEvent::Event(event))
}

/// Returns true if a kind can stand in a line of its own, as the event's name.
fn is_event_name(kind: &str) -> bool {
    !kind.is_empty() && kind.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
}

/// The names in a node's answer that the tenant asked for.
pub(crate) fn asked_for<'a>(asked: &[u8], names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let asked: Value = serde_json::from_slice(asked).unwrap_or_default();
    let plain = |name: &str| {
        let name = name.rsplit('/').next().unwrap_or(name);
        name.split(':').next().unwrap_or(name).to_lowercase()
    };
    let wanted: Vec<_> = asked
        .as_object()
        .into_iter()
        .flat_map(serde_json::Map::values)
        .filter_map(Value::as_str)
        .map(plain)
        .collect();
    let is_wanted = |name: &&str| name.len() <= LONGEST_NAME && wanted.contains(&plain(name));
    names.filter(is_wanted).take(MAX_REMEMBERED_NAMES).collect()
}

/// Takes from an answer what only control says.
pub(crate) fn strip(headers: &mut HeaderMap) {
    let ours = |name: &&http::HeaderName| name.as_str().starts_with("belljar-") && *name != KEYS;
    let ours: Vec<_> = headers.keys().filter(ours).cloned().collect();
    for name in ours {
        headers.remove(name);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn node(number: u16) -> NodeNumber {
        NodeNumber::new(number).unwrap()
    }

    fn id(number: u16, bits: u8) -> String {
        SandboxId::on_node(node(number), [bits; 16]).to_string()
    }

    fn answer(status: StatusCode, keys: &str) -> Parts {
        let response = http::Response::builder().status(status).header(KEYS, keys).body(());
        response.unwrap().into_parts().0
    }

    #[test]
    fn node_lists_its_own_sandboxes_only() {
        let (own, foreign, snapshot) = (id(1, 7), id(2, 7), "snap0001abcdefghijklmnop");
        let keys = format!("5.{own},4.{foreign},3.{own},2.{snapshot},nonsense");
        let items = json!([
            { "sandboxID": own }, { "sandboxID": foreign }, { "sandboxID": foreign },
            { "snapshotID": snapshot }, { "id": own }, { "id": own },
        ]);
        let (parts, body) = own_items(node(1), answer(StatusCode::OK, &keys), items.clone());
        assert_eq!(body, json!([{ "sandboxID": own }, { "snapshotID": snapshot }]));
        assert_eq!(parts.headers[KEYS], format!("5.{own},2.{snapshot}"));
        let paged = json!({ "items": items, "next": "x" });
        let (_, body) = own_items(node(2), answer(StatusCode::OK, &keys), paged);
        assert_eq!(body, json!({ "items": [{ "sandboxID": foreign }], "next": "x" }));
    }

    #[test]
    fn node_has_figures_of_its_own_sandboxes_only() {
        let (own, foreign) = (id(1, 7), id(2, 7));
        let figures = json!({ "sandboxes": { own.clone(): 1, foreign: 2, "x": 3 } });
        let (_, body) = own_items(node(1), answer(StatusCode::OK, ""), figures);
        assert_eq!(body, json!({ "sandboxes": { own: 1 } }));
    }

    #[test]
    fn one_node_cannot_refuse_for_all() {
        let (ok, bad) = (StatusCode::OK, StatusCode::INTERNAL_SERVER_ERROR);
        let said = |status| Some((answer(status, ""), Value::Null));
        let (counted, silent) = agreed(vec![said(bad), said(ok), None]);
        assert_eq!((counted.len(), counted[0].0.status, silent), (1, ok, 2));
        let (counted, silent) = agreed(vec![said(bad), None]);
        assert_eq!((counted.len(), counted[0].0.status, silent), (1, bad, 1));
    }

    #[test]
    fn events_are_about_the_nodes_own_sandboxes() {
        let event = |sandbox: &str| {
            let data = json!({
                "id": 1, "at": "2026-01-01T00:00:00Z", "sandbox": sandbox, "kind": "ended",
            });
            format!("id: 1\nevent: ended\ndata: {data}\n\n")
        };
        let read = |block: &str| read_event(node(1), block.as_bytes());
        assert!(matches!(read(&event(&id(1, 7))), Some(NodeEvent::Event(_))));
        assert!(read(&event(&id(2, 7))).is_none());
        assert!(matches!(read(":\n\n"), Some(NodeEvent::KeepAlive)));
        assert!(read("data: nonsense\n\n").is_none());
        let two = format!("{}\n{}", event(&id(1, 7)).trim_end(), event(&id(2, 7)));
        assert!(read(&two).is_none());
        let named = |kind: &str| read(&event(&id(1, 7)).replace("ended", kind));
        assert!(matches!(named("of_another_kind"), Some(NodeEvent::Event(_))));
        for kind in ["", "ended\\n", "ended\\r", "Ended", "ended:"] {
            assert!(named(kind).is_none(), "{kind}");
        }
    }

    #[test]
    fn only_names_that_were_asked_for_are_remembered() {
        let asked = br#"{ "name": "Mine", "other": 5 }"#;
        let said = ["mine", "team/mine:default", "yours", "production"];
        assert_eq!(asked_for(asked, said.into_iter()), ["mine", "team/mine:default"]);
        assert!(asked_for(b"nonsense", said.into_iter()).is_empty());
        assert_eq!(asked_for(asked, std::iter::repeat_n("mine", 100)).len(), MAX_REMEMBERED_NAMES);
    }
}
