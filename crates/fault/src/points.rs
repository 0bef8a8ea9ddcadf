//! What is to happen, and when.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

/// Which file says how far the clock is off.
const CLOCK: &str = "BELLJAR_FAULT_CLOCK";
/// Where it is written what is to happen.
const VARIABLE: &str = "BELLJAR_FAULT";

#[derive(Debug)]
struct Planned {
    point: String,
    action: Action,
    /// The time at which it happens, counted from 1.
    at: u64,
    seen: AtomicU64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Action {
    Die,
    Stall(Duration),
}

pub(crate) fn reached(name: &str) {
    static PLANNED: OnceLock<Vec<Planned>> = OnceLock::new();
    let planned = PLANNED.get_or_init(|| {
        let written = std::env::var(VARIABLE).unwrap_or_default();
        written.split(',').filter_map(read).collect()
    });
    for planned in planned.iter().filter(|planned| planned.point == name) {
        let seen = planned.seen.fetch_add(1, Ordering::Relaxed) + 1;
        if seen != planned.at {
            continue;
        }
        match planned.action {
            Action::Die => std::process::abort(),
            Action::Stall(time) => stall(time),
        }
    }
}

pub(crate) fn wall_clock() -> SystemTime {
    static FILE: OnceLock<Option<std::path::PathBuf>> = OnceLock::new();
    let now = SystemTime::now();
    let file = FILE.get_or_init(|| std::env::var_os(CLOCK).map(Into::into));
    let text = file.as_ref().and_then(|file| std::fs::read_to_string(file).ok());
    let off: i64 = text.and_then(|text| text.trim().parse().ok()).unwrap_or_default();
    let by = Duration::from_secs(off.unsigned_abs());
    if off < 0 { now - by } else { now + by }
}

#[expect(clippy::disallowed_methods, reason = "to stand still is what is asked for")]
fn stall(time: Duration) {
    std::thread::sleep(time);
}

/// What cannot be read does nothing: a test that relies on it notices.
fn read(text: &str) -> Option<Planned> {
    let mut parts = text.trim().split(':');
    let (point, action) = (parts.next()?, parts.next()?);
    let action = match action.split_once('=') {
        None if action == "die" => Action::Die,
        Some(("stall", millis)) => Action::Stall(Duration::from_millis(millis.parse().ok()?)),
        _ => return None,
    };
    let at = parts.next().map_or(Some(1), |count| count.parse().ok())?;
    Some(Planned { point: point.to_owned(), action, at, seen: AtomicU64::new(0) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_are_read() {
        let planned = read("control.marked:die:3").unwrap();
        assert_eq!(planned.point, "control.marked");
        assert_eq!((planned.action, planned.at), (Action::Die, 3));
        let planned = read("node.made:stall=250").unwrap();
        assert_eq!(planned.action, Action::Stall(Duration::from_millis(250)));
        assert_eq!(planned.at, 1);
    }

    #[test]
    fn what_cannot_be_read_is_nothing() {
        for text in ["", "a", "a:explode", "a:stall=x", "a:die:x"] {
            assert!(read(text).is_none(), "{text}");
        }
    }
}
