//! What happened to a sandbox, line by line, as far back as is kept.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, PoisonError};

use belljar_domain::SandboxId;
use serde::Serialize;

use crate::clock::{Moment, now};
use crate::events::EventKind;
use crate::journal::Ended;
use crate::keys::Tenant;
use crate::problem::Problem;
use crate::start::Actions;

/// How much a line matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    Debug,
    Info,
    Warn,
    Error,
}

#[derive(Debug, Clone, Serialize)]
pub struct LogLine {
    pub at: Moment,
    pub level: Level,
    pub message: String,
    pub fields: BTreeMap<String, String>,
}

/// Which lines to show.
#[derive(Debug, Clone, Default)]
pub struct LogQuery {
    /// Not before, or, going backward, not after this.
    pub cursor: Option<Moment>,
    pub backward: bool,
    /// The least that a line must matter.
    pub level: Option<Level>,
    pub search: Option<String>,
    pub limit: usize,
}

/// The last lines of one sandbox.
#[derive(Debug, Default)]
pub(crate) struct Log {
    lines: Mutex<VecDeque<LogLine>>,
}

/// Lines that are kept of a sandbox.
const MOST: usize = 1000;

/// Bytes of one message that are kept.
const LONGEST: usize = 4096;

impl Log {
    /// The lines on record of a sandbox that has ended.
    fn of_ended(ended: &Ended) -> Self {
        let line = |at, kind: EventKind, detail: Option<&str>| {
            let fields = detail.map(|detail| ("detail".to_owned(), detail.to_owned()));
            let fields = fields.into_iter().collect();
            LogLine { at, level: Level::Info, message: kind.as_str().to_owned(), fields }
        };
        let lines = [
            line(ended.started_at, EventKind::Created, None),
            line(ended.ended_at, EventKind::Ended, Some(ended.reason.as_str())),
        ];
        Self { lines: Mutex::new(lines.into()) }
    }

    pub(crate) fn add(&self, level: Level, message: &str, fields: BTreeMap<String, String>) {
        let end = message.floor_char_boundary(LONGEST.min(message.len()));
        let line = LogLine { at: now(), level, message: message[..end].to_owned(), fields };
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.len() >= MOST {
            lines.pop_front();
        }
        lines.push_back(line);
    }

    fn find(&self, query: &LogQuery) -> Vec<LogLine> {
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let fits = |line: &&LogLine| {
            let in_time = match query.cursor {
                Some(cursor) if query.backward => line.at <= cursor,
                Some(cursor) => line.at >= cursor,
                None => true,
            };
            in_time
                && query.level.is_none_or(|level| line.level >= level)
                && query.search.as_ref().is_none_or(|text| line.message.contains(text))
        };
        let fitting = lines.iter().filter(fits);
        if query.backward {
            fitting.rev().take(query.limit).cloned().collect()
        } else {
            fitting.take(query.limit).cloned().collect()
        }
    }
}

impl Actions {
    /// The lines of a tenant's own sandbox. Of one that has ended, its beginning and its end are
    /// left.
    pub fn logs(
        &self,
        tenant: &Tenant,
        id: &str,
        query: &LogQuery,
    ) -> Result<Vec<LogLine>, Problem> {
        let unknown = match self.registry().find(tenant, id) {
            Ok(sandbox) => return Ok(sandbox.log.find(query)),
            Err(problem) => problem,
        };
        let ended =
            id.parse::<SandboxId>().ok().and_then(|id| self.journal().ended_sandbox(tenant, &id));
        ended.map(|ended| Log::of_ended(&ended).find(query)).ok_or(unknown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(log: &Log, query: LogQuery) -> Vec<String> {
        log.find(&query).into_iter().map(|line| line.message).collect()
    }

    #[test]
    fn the_oldest_lines_are_forgotten_first() {
        let log = Log::default();
        for n in 0..MOST + 2 {
            log.add(Level::Info, &n.to_string(), BTreeMap::new());
        }
        let query = LogQuery { limit: 2, ..LogQuery::default() };
        assert_eq!(messages(&log, query.clone()), ["2", "3"]);
        let newest = LogQuery { backward: true, ..query };
        assert_eq!(messages(&log, newest), [(MOST + 1).to_string(), MOST.to_string()]);
    }

    #[test]
    fn lines_are_found_by_weight_and_words() {
        let log = Log::default();
        log.add(Level::Info, "created", BTreeMap::new());
        log.add(Level::Warn, "nearly full", BTreeMap::new());
        let all = LogQuery { limit: 10, ..LogQuery::default() };
        let heavy = LogQuery { level: Some(Level::Warn), ..all.clone() };
        assert_eq!(messages(&log, heavy), ["nearly full"]);
        let worded = LogQuery { search: Some("eat".into()), ..all.clone() };
        assert_eq!(messages(&log, worded), ["created"]);
        let future =
            LogQuery { cursor: Some(now().plus(std::time::Duration::from_secs(9))), ..all };
        assert!(messages(&log, future).is_empty());
    }

    #[test]
    fn an_ended_sandbox_has_its_beginning_and_its_end() {
        let (begin, life) = (now(), std::time::Duration::from_secs(5));
        let ended = Ended {
            id: SandboxId::from_random([7; 16]),
            tenant: Tenant::new("a"),
            template: "base".to_owned(),
            started_at: begin,
            ended_at: begin.plus(life),
            reason: belljar_domain::EndReason::Killed,
            tier: belljar_domain::Tier::Jail,
        };
        let log = Log::of_ended(&ended);
        let all = LogQuery { limit: 10, ..LogQuery::default() };
        assert_eq!(messages(&log, all.clone()), ["created", "ended"]);
        let later = LogQuery { cursor: Some(begin.plus(life)), ..all };
        let found = log.find(&later);
        let [end] = &found[..] else { panic!("one line") };
        assert_eq!(end.fields.get("detail").map(String::as_str), Some("killed"));
    }

    #[test]
    fn a_long_message_is_cut_between_characters() {
        let log = Log::default();
        log.add(Level::Info, &"ü".repeat(LONGEST), BTreeMap::new());
        let all = LogQuery { limit: 1, ..LogQuery::default() };
        assert_eq!(messages(&log, all), ["ü".repeat(LONGEST / 2)]);
    }
}
