//! Attribution in one sandbox: the run's call that is current, and rows of calls that ended.
//!
//! The kernel says which call a process belongs to, so a process that an earlier call left
//! behind is still that call's. What no process can be found for belongs to the call that
//! began last.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use belljar_domain::network::{CallRef, Row};
use belljar_domain::rows::{
    AttributedRow, CallKind, CallRow, ChangeKind, FileChange, RowBody, SandboxRow,
};
use belljar_domain::{Attribution, EndReason, Usage, User};
use belljar_node::Listing;

use crate::row_queue::RowQueue;
use crate::sandbox::{Live, Sandbox};

/// Directories in which changes are looked for.
const WRITABLE: [&str; 3] = ["/home/user", "/tmp", "/var/tmp"];
/// Changed files of one call that are listed.
const MAX_CHANGES: usize = 200;
/// Their bytes, as they are sent.
const MAX_CHANGES_BYTES: usize = 32 << 10;
/// Kernels stamp files with the time of their last tick, which is up to 10 ms old.
const FILE_CLOCK_TICK: Duration = Duration::from_millis(10);
/// Longest wait of the end of a call for its list of files.
const LISTING_TIMEOUT: Duration = Duration::from_secs(2);

/// The calls of runs that one sandbox works on.
#[derive(Debug, Default)]
pub(crate) struct Attributor {
    queue: Option<RowQueue>,
    /// Of the call that began last; none if no run made it.
    current: Mutex<Option<Attribution>>,
    /// The files that had changed when a call of a run ended last.
    files: Mutex<Option<Changed>>,
}

/// Size and time of files that are not the template's.
type Changed = BTreeMap<String, (u64, i64, u32)>;

/// A call that has begun.
#[derive(Debug, Clone)]
pub(crate) struct BegunCall {
    kind: CallKind,
    attribution: Option<Attribution>,
    began: SystemTime,
}

/// The end of a call.
#[derive(Debug)]
pub(crate) struct EndedCall<'a> {
    pub(crate) number: u32,
    pub(crate) is_ok: bool,
    pub(crate) reason: EndReason,
    pub(crate) exit_code: Option<i32>,
    pub(crate) usage: &'a Usage,
}

impl Attributor {
    pub(crate) fn new(queue: Option<RowQueue>) -> Self {
        Self { queue, ..Self::default() }
    }

    /// Notes that a call begins.
    pub(crate) fn begin(&self, kind: CallKind, attribution: Option<Attribution>) -> BegunCall {
        lock(&self.current).clone_from(&attribution);
        BegunCall { kind, attribution, began: SystemTime::now() }
    }

    /// Attributes traffic that is known to be no call's to the call that began last, and sends
    /// the row on.
    pub(crate) fn connection(&self, row: &mut Row) {
        if row.subject.run.is_none()
            && row.subject.call.is_none()
            && let Some(current) = lock(&self.current).clone()
        {
            row.subject.run = Some(current.run.to_string());
            row.subject.turn = Some(current.turn);
        }
        if let Some(queue) = &self.queue {
            let mut sent = AttributedRow::of_connection(row);
            sent.attribution = self.completed(sent.attribution, row.subject.call.as_ref());
            queue.push(sent);
        }
    }

    /// The identity with the call that began last, where the row names none.
    fn completed(&self, known: Option<Attribution>, call: Option<&CallRef>) -> Option<Attribution> {
        let mut known = known?;
        if call.is_none()
            && let Some(current) = lock(&self.current).as_ref()
            && (&current.run, current.turn) == (&known.run, known.turn)
        {
            known.call.clone_from(&current.call);
        }
        Some(known)
    }

    /// Sends the row of a call that has ended. For a call of a run it lists what files changed.
    pub(crate) async fn end(
        &self,
        sandbox: &Sandbox,
        live: Option<&Live>,
        begun: &BegunCall,
        ended: EndedCall<'_>,
    ) {
        let Some(queue) = &self.queue else { return };
        let (files, is_cut) = match (&begun.attribution, live) {
            (Some(_), Some(live)) => self.changes(live, begun.began).await,
            (Some(_), None) => (Vec::new(), true),
            (None, _) => (Vec::new(), false),
        };
        queue.push(AttributedRow {
            id: String::new(),
            tenant: sandbox.facts().tenant.as_str().to_owned(),
            sandbox: sandbox.id().clone(),
            attribution: begun.attribution.clone(),
            began: micros(begun.began.duration_since(UNIX_EPOCH).unwrap_or_default()),
            micros: micros(ended.usage.wall),
            body: RowBody::Call(CallRow {
                number: ended.number,
                kind: begun.kind,
                is_ok: ended.is_ok,
                reason: ended.reason,
                exit_code: ended.exit_code,
                cpu_micros: micros(ended.usage.cpu),
                peak_bytes: ended.usage.peak_memory_bytes,
                output_bytes: ended.usage.output_bytes,
                files,
                is_cut,
            }),
        });
    }

    /// Sends the row of a sandbox that has ended, to be charged.
    pub(crate) fn sandbox_ended(&self, sandbox: &Sandbox) {
        let Some(queue) = &self.queue else { return };
        let facts = sandbox.facts();
        let began = u64::try_from(facts.started_at.unix_micros()).unwrap_or_default();
        let ran = sandbox.ran();
        // With pauses: the charge counts at the end of the sandbox.
        let lived = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let lived = micros(lived).saturating_sub(began);
        queue.push(AttributedRow {
            id: String::new(),
            tenant: facts.tenant.as_str().to_owned(),
            sandbox: sandbox.id().clone(),
            attribution: None,
            began,
            micros: lived,
            body: RowBody::Sandbox(SandboxRow {
                run: facts.metadata.get("run").and_then(|run| run.parse().ok()),
                ran_ms: u64::try_from(ran.as_millis()).unwrap_or(u64::MAX),
            }),
        });
    }

    /// The files that changed since a moment, and whether these are not all.
    async fn changes(&self, live: &Live, since: SystemTime) -> (Vec<FileChange>, bool) {
        let listing = live.machine.changed(User::User, &WRITABLE);
        let Ok(Ok(listing)) = tokio::time::timeout(LISTING_TIMEOUT, listing).await else {
            return (Vec::new(), true);
        };
        let is_complete = listing.complete;
        let now = changed(&listing);
        let since = since.duration_since(UNIX_EPOCH).unwrap_or_default();
        let mut known = lock(&self.files);
        let mut found = difference(known.as_ref(), &now, since, is_complete);
        *known = Some(now);
        let is_cut = cut(&mut found);
        (found, is_cut || !is_complete)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn changed(listing: &Listing) -> Changed {
    let file = |entry: &belljar_node::Entry| {
        let path = String::from_utf8_lossy(&entry.path).into_owned();
        (path, (entry.size, entry.modified_seconds, entry.modified_nanos))
    };
    listing.entries.iter().map(file).collect()
}

/// The files of `now` that are not as they were `before` and were written since a moment, and
/// those that are gone. What was there already and what others put in between is no change.
fn difference(
    before: Option<&Changed>,
    now: &Changed,
    since: Duration,
    is_complete: bool,
) -> Vec<FileChange> {
    let mut found = Vec::new();
    let since = since.saturating_sub(FILE_CLOCK_TICK);
    for (path, state) in now {
        let was = before.and_then(|before| before.get(path));
        let (bytes, seconds, nanos) = *state;
        let at = u64::try_from(seconds).map(|seconds| Duration::new(seconds, nanos));
        if was == Some(state) || at.unwrap_or_default() < since {
            continue;
        }
        let change = if was.is_some() { ChangeKind::Modified } else { ChangeKind::Created };
        found.push(FileChange { path: path.clone(), change, bytes: Some(bytes) });
    }
    let gone = before.into_iter().flat_map(BTreeMap::keys).filter(|path| !now.contains_key(*path));
    let removed = gone.filter(|_| is_complete).map(|path| FileChange {
        path: path.clone(),
        change: ChangeKind::Removed,
        bytes: None,
    });
    found.extend(removed);
    found
}

/// Leaves as many files as one row may have, and returns true if these are not all.
fn cut(found: &mut Vec<FileChange>) -> bool {
    let mut left = MAX_CHANGES_BYTES;
    let fits = |file: &FileChange| {
        let bytes = serde_json::to_vec(file).map_or(usize::MAX, |text| text.len());
        let rest = left.checked_sub(bytes);
        left = rest.unwrap_or_default();
        rest.is_some()
    };
    let most = found.iter().take(MAX_CHANGES).map(fits).take_while(|fits| *fits).count();
    let is_cut = most < found.len();
    found.truncate(most);
    is_cut
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use belljar_domain::network::{Bytes, Decision, Kind, Reason, Subject};
    use belljar_domain::{ExecId, RunId, SandboxId};

    use super::*;

    fn attribution(turn: u32) -> Attribution {
        let call = Some(ExecId::from_bits([u8::try_from(turn).unwrap(); 16]));
        Attribution { run: RunId::from_bits([1; 16]), turn, call }
    }

    fn row(run: Option<&Attribution>, call: Option<CallRef>) -> Row {
        let subject = Subject {
            tenant: "ann".to_owned(),
            sandbox: SandboxId::from_random([7; 16]),
            run: run.map(|it| it.run.to_string()),
            turn: run.map(|it| it.turn),
            call,
            process: None,
        };
        Row {
            sequence: 1,
            within: None,
            subject,
            kind: Kind::Connection,
            decision: Decision::Denied,
            reason: Reason::NotAllowed,
            host: None,
            port: None,
            address: None,
            method: None,
            path: None,
            status: None,
            operation: None,
            charge_id: None,
            charge: None,
            bytes: Bytes::default(),
            began: 0,
            first_byte_micros: None,
            micros: 0,
        }
    }

    #[test]
    fn a_process_keeps_its_call_and_all_else_belongs_to_the_current_one() {
        let queue = RowQueue::new().unwrap();
        let attributor = Attributor::new(Some(queue.clone()));
        let (first, second) = (attribution(1), attribution(2));
        attributor.begin(CallKind::Process, Some(first.clone()));
        attributor.begin(CallKind::Cell, Some(second.clone()));
        let name = first.call.as_ref().map(ToString::to_string);
        let left = CallRef { number: 3, name, ended: true };
        attributor.connection(&mut row(Some(&first), Some(left)));
        attributor.connection(&mut row(None, None));
        // A call that no run made stays no run's.
        let own = CallRef { number: 4, name: None, ended: false };
        attributor.connection(&mut row(None, Some(own)));
        attributor.begin(CallKind::Process, None);
        attributor.connection(&mut row(None, None));
        let rows = queue.batch().unwrap().rows;
        let known: Vec<_> = rows.into_iter().map(|row| row.attribution).collect();
        assert_eq!(known, [Some(first), Some(second), None, None]);
    }

    #[test]
    fn a_file_that_is_written_at_once_has_the_time_of_the_tick_before() {
        let (began, tick) = (Duration::new(10, 7_000_000), ("made".to_owned(), (2, 10, 0)));
        let found = difference(None, &Changed::from([tick]), began, true);
        assert_eq!(found.len(), 1);
        let old = ("copied".to_owned(), (2, 9, 990_000_000));
        assert!(difference(None, &Changed::from([old]), began, true).is_empty());
    }

    #[test]
    fn changes_are_those_since_the_call_began() {
        let files = |files: &[(&str, u64, i64)]| -> Changed {
            files.iter().map(|(path, size, at)| ((*path).to_owned(), (*size, *at, 0))).collect()
        };
        let since = Duration::from_secs(10);
        let first = files(&[("copied", 1, 5), ("made", 2, 11)]);
        let change =
            |path: &str, change, bytes| FileChange { path: path.to_owned(), change, bytes };
        let created = [change("made", ChangeKind::Created, Some(2))];
        assert_eq!(difference(None, &first, since, true), created);
        let second = files(&[("copied", 9, 21), ("new", 3, 22), ("written between", 1, 15)]);
        let since = Duration::from_secs(20);
        let found = [
            change("copied", ChangeKind::Modified, Some(9)),
            change("new", ChangeKind::Created, Some(3)),
            change("made", ChangeKind::Removed, None),
        ];
        assert_eq!(difference(Some(&first), &second, since, true), found);
        // A list that is cut off does not show what is gone.
        assert_eq!(difference(Some(&first), &second, since, false), found[..2]);
    }

    #[test]
    fn a_list_of_files_is_bounded_in_number_and_bytes() {
        let files = |count: usize, name: &str| -> Vec<FileChange> {
            let path = name.to_owned();
            vec![FileChange { path, change: ChangeKind::Created, bytes: Some(1) }; count]
        };
        let mut few = files(MAX_CHANGES, "a");
        assert!(!cut(&mut few));
        assert_eq!(few.len(), MAX_CHANGES);
        let mut many = files(MAX_CHANGES + 1, "a");
        assert!(cut(&mut many));
        assert_eq!(many.len(), MAX_CHANGES);
        // A control character is six bytes as it is sent.
        let mut long = files(MAX_CHANGES, &"\u{1}".repeat(1000));
        assert!(cut(&mut long));
        assert_eq!(long.len(), 5);
    }
}
