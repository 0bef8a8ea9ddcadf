//! What became of a change.

/// Whether the row is now as the writer wants it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    Done,
    /// It was so before: an earlier attempt did arrive.
    Already,
    /// The row has moved on, or never was: the writer acts on old knowledge.
    Stale,
}

impl Change {
    /// By whether the row was changed, and whether it was so before.
    pub(crate) fn seen(done: bool, already: bool) -> Self {
        match (done, already) {
            (true, _) => Self::Done,
            (false, true) => Self::Already,
            (false, false) => Self::Stale,
        }
    }

    pub fn is_stale(self) -> bool {
        self == Self::Stale
    }
}
