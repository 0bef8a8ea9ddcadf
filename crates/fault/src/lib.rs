//! Moments at which a test may have this process die or stand still.
//!
//! ```text
//! BELLJAR_FAULT=point:action[:count][,...]      control.marked:die:3
//! ```
//!
//! `count` is the time at which it happens, 1 if left out. `die` ends the process
//! as `kill -9` does, without a word to anybody; `stall=MILLIS` holds the thread
//! for so long. Without the feature `faults` nothing is here: no variable is
//! read, and [`point`] is empty.

// Its tests run without the feature, or no stage of the gate would run them.
#[cfg(any(feature = "faults", test))]
mod points;

/// Here a test may interfere.
#[inline]
pub fn point(name: &str) {
    #[cfg(any(feature = "faults", test))]
    points::reached(name);
    #[cfg(not(any(feature = "faults", test)))]
    let _ = name;
}

/// The same, where the moment's name is that of an event: `area.event`.
#[inline]
pub fn point_at(area: &str, event: &str) {
    #[cfg(any(feature = "faults", test))]
    points::reached(&format!("{area}.{event}"));
    #[cfg(not(any(feature = "faults", test)))]
    let _ = (area, event);
}

/// The wall clock. With the feature, as many seconds off as the file says that
/// `BELLJAR_FAULT_CLOCK` names: a test lets it jump.
#[inline]
pub fn wall_clock() -> std::time::SystemTime {
    #[cfg(any(feature = "faults", test))]
    return points::wall_clock();
    #[cfg(not(any(feature = "faults", test)))]
    std::time::SystemTime::now()
}

/// Whether anything can happen at a point.
pub const fn is_armed() -> bool {
    cfg!(feature = "faults")
}
