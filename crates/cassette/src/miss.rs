//! Explains why nothing recorded fits a request.

use std::fmt;
use std::sync::Arc;

use serde::Serialize;

use crate::Matching;
use crate::blob::Blobs;
use crate::index::{Asked, Entry};
use crate::json::Json;
use crate::request::Question;

/// A request that is not on the cassette.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Miss {
    pub method: String,
    /// Without secrets.
    pub url: String,
    /// How many exchanges there are.
    pub recorded: usize,
    /// The recorded request that is most like it, if any is at all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nearest: Option<Nearest>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Nearest {
    /// Which exchange, from 0.
    pub number: usize,
    pub method: String,
    pub url: String,
    /// Empty when the request is the same and has been played already.
    pub differs: Vec<Difference>,
}

/// One thing that is not the same, with what is on each side; none where there
/// is nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Difference {
    #[serde(flatten)]
    pub what: What,
    pub recorded: Option<String>,
    pub asked: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "what", content = "at", rename_all = "snake_case")]
pub enum What {
    Method,
    Scheme,
    Host,
    Port,
    Path,
    Parameter(String),
    Header(String),
    Status,
    End,
    /// By JSON pointer.
    Field(String),
    /// By number of its first different byte.
    Body(usize),
}

/// How many bodies are compared to find the nearest.
const CANDIDATES: usize = 8;
/// Bodies beyond this are only said to differ.
const COMPARED: u64 = 8 << 20;
/// Characters that are shown of each side.
const SHOWN: usize = 60;

pub(crate) fn explain(
    question: &Question,
    entries: &[Arc<Entry>],
    played: &[bool],
    matching: &Matching,
    blobs: &Blobs,
) -> Miss {
    let asked = &question.asked;
    let mut ranked: Vec<(Likeness, usize)> = entries
        .iter()
        .enumerate()
        .filter(|(_, entry)| is_alike(asked, &entry.request))
        .map(|(number, entry)| {
            let is_played = played.get(number).is_some_and(|played| *played);
            (likeness(asked, &entry.request, matching, is_played), number)
        })
        .collect();
    ranked.sort_by(|(a, first), (b, second)| b.cmp(a).then(first.cmp(second)));
    let best = ranked.first().map(|(likeness, _)| *likeness);
    let nearest = ranked
        .iter()
        .take_while(|(likeness, _)| Some(*likeness) == best)
        .take(CANDIDATES)
        .filter_map(|(_, number)| {
            let recorded = &entries.get(*number)?.request;
            let body = body(recorded, blobs);
            let common = body.as_deref().map_or(0, |body| common(body, &question.body));
            Some((common, *number, recorded, body))
        })
        // Of equals the first, which is the one that should have come next.
        .reduce(|best, other| if other.0 > best.0 { other } else { best })
        .map(|(_, number, recorded, body)| {
            let mut differs = heads(recorded, asked, matching);
            differs.extend(bodies(recorded, body.as_deref(), question, matching));
            let (method, url) = (recorded.method.clone(), recorded.url.to_string());
            Nearest { number, method, url, differs }
        });
    let (method, url) = (asked.method.clone(), asked.url.to_string());
    Miss { method, url, recorded: entries.len(), nearest }
}

/// A request to another place for another thing explains nothing.
fn is_alike(asked: &Asked, recorded: &Asked) -> bool {
    asked.url.host == recorded.url.host
        || asked.url.path == recorded.url.path && asked.url.path.len() > 1
}

/// More is nearer; what comes first counts most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Likeness {
    host: bool,
    path: bool,
    /// Bytes that paths have in common, where they are not the same.
    path_bytes: usize,
    method: bool,
    /// Fewer differences in address, parameters and headers are better.
    same: std::cmp::Reverse<usize>,
    unplayed: bool,
}

fn likeness(asked: &Asked, recorded: &Asked, matching: &Matching, played: bool) -> Likeness {
    let path = asked.url.path == recorded.url.path;
    Likeness {
        host: asked.url.host == recorded.url.host,
        path,
        path_bytes: common(asked.url.path.as_bytes(), recorded.url.path.as_bytes()),
        method: asked.method == recorded.method,
        // Elsewhere the parameters mean something else.
        same: std::cmp::Reverse(if path { heads(recorded, asked, matching).len() } else { 0 }),
        unplayed: !played,
    }
}

fn common(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

/// What differs between two requests, besides their bodies.
pub(crate) fn heads(recorded: &Asked, asked: &Asked, matching: &Matching) -> Vec<Difference> {
    let mut found = Vec::new();
    let mut compare = |what: What, recorded: Option<String>, asked: Option<String>| {
        if recorded != asked {
            found.push(Difference::between(what, recorded.as_deref(), asked.as_deref()));
        }
    };
    let (one, other) = (&recorded.url, &asked.url);
    compare(What::Method, Some(recorded.method.clone()), Some(asked.method.clone()));
    compare(What::Scheme, Some(one.scheme.as_str().into()), Some(other.scheme.as_str().into()));
    compare(What::Host, Some(one.host.to_string()), Some(other.host.to_string()));
    compare(What::Port, Some(one.port.to_string()), Some(other.port.to_string()));
    compare(What::Path, Some(one.path.clone()), Some(other.path.clone()));

    let (one, other) = (matching.parameters(recorded), matching.parameters(asked));
    let text = |values: &Vec<Option<&str>>| {
        values.iter().map(|value| value.unwrap_or_default()).collect::<Vec<_>>().join(", ")
    };
    for name in one.keys().chain(other.keys().filter(|name| !one.contains_key(*name))) {
        let what = What::Parameter((*name).to_owned());
        compare(what, one.get(name).map(text), other.get(name).map(text));
    }
    let (one, other) = (matching.headers(recorded), matching.headers(asked));
    for name in one.keys().chain(other.keys().filter(|name| !one.contains_key(*name))) {
        let text = |values: &Vec<&str>| values.join(", ");
        let what = What::Header((*name).to_owned());
        compare(what, one.get(name).map(text), other.get(name).map(text));
    }
    found
}

/// None: not there, too large to be compared, or damaged.
fn body(recorded: &Asked, blobs: &Blobs) -> Option<Vec<u8>> {
    match &recorded.body {
        None => Some(vec![]),
        Some(blob) => blobs.get(blob, COMPARED).ok(),
    }
}

fn bodies(
    recorded: &Asked,
    body: Option<&[u8]>,
    question: &Question,
    matching: &Matching,
) -> Option<Difference> {
    let Some(body) = body else {
        let blob = recorded.body.map(|blob| format!("sha256 {}", blob.sha256));
        let asked = question.asked.body.map(|blob| format!("sha256 {}", blob.sha256));
        let differs = blob != asked;
        return differs.then_some(Difference { what: What::Body(0), recorded: blob, asked });
    };
    let json = recorded.json.and_then(|_| Json::parse(body));
    let (Some(mut one), Some(mut other)) = (json, question.json.clone()) else {
        return contents(body, &question.body);
    };
    matching.forget(&mut one);
    matching.forget(&mut other);
    values(&one, &other)
}

/// The first difference of two bodies, by field if both are JSON.
pub(crate) fn contents(recorded: &[u8], asked: &[u8]) -> Option<Difference> {
    if recorded == asked {
        return None;
    }
    let at = common(recorded, asked);
    let from = at.saturating_sub(SHOWN / 3);
    let side = |content: &[u8]| {
        let shown = content.get(from..content.len().min(from + 4 * SHOWN)).unwrap_or_default();
        (at < content.len()).then(|| short(&String::from_utf8_lossy(shown)))
    };
    Some(Difference { what: What::Body(at), recorded: side(recorded), asked: side(asked) })
}

pub(crate) fn values(recorded: &Json, asked: &Json) -> Option<Difference> {
    recorded.parting(asked).map(|parting| {
        let what = What::Field(parting.pointer);
        Difference::between(what, parting.left.as_deref(), parting.right.as_deref())
    })
}

impl Difference {
    /// Of two long texts, what is around the first character that differs.
    pub(crate) fn between(what: What, recorded: Option<&str>, asked: Option<&str>) -> Self {
        let (one, other) = (recorded.unwrap_or_default(), asked.unwrap_or_default());
        let same = one.chars().zip(other.chars()).take_while(|(a, b)| a == b).count();
        let skipped = if same > SHOWN / 2 { same - SHOWN / 3 } else { 0 };
        let side = |text: &str| {
            let rest: String = text.chars().skip(skipped).collect();
            if skipped > 0 { format!("…{}", short(&rest)) } else { short(&rest) }
        };
        Self { what, recorded: recorded.map(side), asked: asked.map(side) }
    }
}

fn short(text: &str) -> String {
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", text.split_at(end).0),
        None => text.to_owned(),
    }
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Method => f.write_str("the method"),
            Self::Scheme => f.write_str("the scheme"),
            Self::Host => f.write_str("the host"),
            Self::Port => f.write_str("the port"),
            Self::Path => f.write_str("the path"),
            Self::Parameter(name) => write!(f, "query parameter `{name}`"),
            Self::Header(name) => write!(f, "header `{name}`"),
            Self::Status => f.write_str("the status"),
            Self::End => f.write_str("how it ended"),
            Self::Field(pointer) if pointer.is_empty() => f.write_str("the body"),
            Self::Field(pointer) => write!(f, "the body at `{pointer}`"),
            Self::Body(at) => write!(f, "the body from byte {at}"),
        }
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let side = |side: &Option<String>| match side {
            Some(text) => format!("`{text}`"),
            None => "nothing".to_owned(),
        };
        write!(
            f,
            "{}: {} was recorded, {} is asked",
            self.what,
            side(&self.recorded),
            side(&self.asked)
        )
    }
}

impl fmt::Display for Miss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} {} is not among the {} recorded exchanges",
            self.method, self.url, self.recorded
        )?;
        let Some(nearest) = &self.nearest else { return Ok(()) };
        if nearest.differs.is_empty() {
            return write!(f, " any more: all that were recorded of it have been played");
        }
        write!(f, "; the nearest is {} {}", nearest.method, nearest.url)?;
        for (number, difference) in nearest.differs.iter().enumerate() {
            write!(f, "{}{difference}", if number == 0 { ", which differs in " } else { "; in " })?;
        }
        Ok(())
    }
}

impl std::error::Error for Miss {}
