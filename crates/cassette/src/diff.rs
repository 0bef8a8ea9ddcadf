//! What is different between two cassettes.
//!
//! The same request in both is one exchange, in the order in which it was
//! repeated. Of what is left, requests to the same place are taken for one that
//! changed. Of headers only those count that change what an answer means: dates
//! and ids of requests are different every time.

use std::collections::{HashMap, HashSet, VecDeque};
use std::fmt;

use belljar_domain::network::CassetteId;
use serde::Serialize;

use crate::blob::BlobError;
use crate::index::{Answered, Asked, Entry, header};
use crate::json::Json;
use crate::miss::{self, Difference, What};
use crate::store::Tenant;
use crate::{Blob, Matching, StoreError};

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Changes {
    pub removed: Vec<Side>,
    pub added: Vec<Side>,
    pub changed: Vec<Changed>,
}

/// An exchange of one of the two.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Side {
    /// From 0.
    pub number: usize,
    pub method: String,
    pub url: String,
    pub status: u16,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Changed {
    pub before: Side,
    pub after: Side,
    pub part: Part,
    /// `recorded` is before, `asked` is after.
    pub differs: Vec<Difference>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    Request,
    Answer,
}

#[derive(Debug, thiserror::Error)]
pub enum DiffError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("a body cannot be read")]
    Blob(#[from] BlobError),
}

/// Bodies beyond this are only said to differ.
const COMPARED: u64 = 16 << 20;
const TELLING: [&str; 3] = ["content-type", "location", "content-range"];

impl Tenant {
    #[expect(clippy::indexing_slicing, reason = "numbers come from counting these entries")]
    pub fn diff(
        &self,
        before: &CassetteId,
        after: &CassetteId,
        matching: &Matching,
    ) -> Result<Changes, DiffError> {
        let _tenant = self.hold()?;
        let (before, after) = (self.read(before)?.entries, self.read(after)?.entries);
        let mut changes = Changes::default();

        let mut by_key = HashMap::<_, VecDeque<usize>>::new();
        for (number, entry) in after.iter().enumerate() {
            let key = matching.of_entry(&entry.request, &self.blobs)?;
            by_key.entry(key).or_default().push_back(number);
        }
        let mut lost = Vec::new();
        for (number, entry) in before.iter().enumerate() {
            let key = matching.of_entry(&entry.request, &self.blobs)?;
            let Some(other) = by_key.get_mut(&key).and_then(VecDeque::pop_front) else {
                lost.push(number);
                continue;
            };
            let differs = self.answers(&entry.answer, &after[other].answer)?;
            if !differs.is_empty() {
                let (before, after) = (side(&before, number), side(&after, other));
                changes.changed.push(Changed { before, after, part: Part::Answer, differs });
            }
        }

        let mut left: Vec<usize> = by_key.into_values().flatten().collect();
        left.sort_unstable();
        let mut by_place = HashMap::<_, VecDeque<usize>>::new();
        for number in &left {
            by_place.entry(place(&after[*number].request)).or_default().push_back(*number);
        }
        let mut paired = HashSet::new();
        for number in lost {
            let entry = &before[number];
            let found = by_place.get_mut(&place(&entry.request)).and_then(VecDeque::pop_front);
            let Some(other) = found else {
                changes.removed.push(side(&before, number));
                continue;
            };
            paired.insert(other);
            let asked = &after[other].request;
            let mut differs = miss::heads(&entry.request, asked, matching);
            differs
                .extend(self.bodies(entry.request.body, asked.body, |json| matching.forget(json))?);
            let (before, after) = (side(&before, number), side(&after, other));
            changes.changed.push(Changed { before, after, part: Part::Request, differs });
        }
        left.retain(|number| !paired.contains(number));
        changes.added = left.into_iter().map(|number| side(&after, number)).collect();
        changes.changed.sort_by_key(|changed| changed.before.number);
        Ok(changes)
    }

    fn answers(&self, before: &Answered, after: &Answered) -> Result<Vec<Difference>, BlobError> {
        let mut found = Vec::new();
        let mut compare = |what, before: Option<String>, after: Option<String>| {
            if before != after {
                found.push(Difference::between(what, before.as_deref(), after.as_deref()));
            }
        };
        compare(What::Status, Some(before.status.to_string()), Some(after.status.to_string()));
        let end = |answer: &Answered| Some(format!("{:?}", answer.end).to_ascii_lowercase());
        compare(What::End, end(before), end(after));
        for name in TELLING {
            let value = |answer: &Answered| header(&answer.headers, name).map(str::to_owned);
            compare(What::Header(name.to_owned()), value(before), value(after));
        }
        found.extend(self.bodies(before.body, after.body, |_| {})?);
        Ok(found)
    }

    fn bodies(
        &self,
        before: Option<Blob>,
        after: Option<Blob>,
        forget: impl Fn(&mut Json),
    ) -> Result<Option<Difference>, BlobError> {
        if before == after {
            return Ok(None);
        }
        if [before, after].into_iter().flatten().any(|blob| blob.bytes > COMPARED) {
            let text = |blob: Blob| format!("{} bytes, sha256 {}", blob.bytes, blob.sha256);
            let (recorded, asked) = (before.map(text), after.map(text));
            return Ok(Some(Difference { what: What::Body(0), recorded, asked }));
        }
        let read =
            |blob: Option<Blob>| blob.map_or(Ok(vec![]), |blob| self.blobs.get(&blob, COMPARED));
        let (before, after) = (read(before)?, read(after)?);
        let Some((mut one, mut other)) = Json::parse(&before).zip(Json::parse(&after)) else {
            return Ok(miss::contents(&before, &after));
        };
        forget(&mut one);
        forget(&mut other);
        Ok(miss::values(&one, &other))
    }
}

/// Requests of the same place may be the same request, changed.
fn place(asked: &Asked) -> (String, String) {
    let mut url = asked.url.clone();
    url.query = None;
    (asked.method.clone(), url.to_string())
}

#[expect(clippy::indexing_slicing, reason = "numbers come from counting these entries")]
fn side(entries: &[Entry], number: usize) -> Side {
    let Entry { request, answer } = &entries[number];
    let (method, url) = (request.method.clone(), request.url.to_string());
    Side { number, method, url, status: answer.status }
}

impl Changes {
    pub fn is_empty(&self) -> bool {
        self.removed.is_empty() && self.added.is_empty() && self.changed.is_empty()
    }
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.method, self.url, self.status)
    }
}

/// One line each: `-` removed, `+` added, `~` changed.
impl fmt::Display for Changes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.removed.iter().try_for_each(|side| writeln!(f, "- {side}"))?;
        self.added.iter().try_for_each(|side| writeln!(f, "+ {side}"))?;
        for changed in &self.changed {
            let part = match changed.part {
                Part::Request => "request",
                Part::Answer => "answer",
            };
            writeln!(f, "~ {}", changed.after)?;
            for Difference { what, recorded, asked } in &changed.differs {
                let show = |side: &Option<String>| side.clone().unwrap_or_else(|| "nothing".into());
                writeln!(f, "    {part}, {what}: {} → {}", show(recorded), show(asked))?;
            }
        }
        Ok(())
    }
}
