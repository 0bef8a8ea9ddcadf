//! The seccomp filters: which system calls a sandbox may make.
//!
//! An allow-list with three answers. A call of a foreign architecture kills; a
//! number that the table does not know answers `ENOSYS`, so that C libraries
//! fall back; a known call that is not allowed answers `EPERM`. Arguments are
//! compared by their low 32 bits only, because the kernel reads no more of an
//! `int`: a comparison of all 64 bits can be dodged by setting a high one.

mod assemble;
pub mod numbers;
mod policy;
#[cfg(test)]
mod tests;

pub use assemble::assemble;
pub use policy::{
    enclosed, guest, monitor, pinned, reader, unconnected, unreserving, user, zygote,
};

use belljar_sys::seccomp::Instruction;

/// What the kernel answers to a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Allow,
    /// The call fails with this error; 0 pretends that it was done.
    Errno(u16),
    Kill,
}

/// How a verdict is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    Now(Verdict),
    /// Looks at `arguments[arg] & mask`, low 32 bits.
    Switch {
        arg: u8,
        mask: u32,
        cases: &'static [(u32, Rule)],
        otherwise: Verdict,
    },
}

/// A rule for every known call; those left out answer `EPERM`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Policy {
    rules: std::collections::BTreeMap<u32, Rule>,
}

impl Policy {
    fn rule(&self, number: u32) -> Rule {
        self.rules.get(&number).copied().unwrap_or(Rule::Now(Verdict::Errno(errno::PERM)))
    }

    /// Sets the rule of these calls.
    ///
    /// # Panics
    ///
    /// If the table has no call of that name: a misspelled name in a list of what is denied
    /// would leave that call allowed. Every list is ours, and a test assembles every policy.
    fn set(&mut self, names: &[&str], rule: Rule) {
        for name in names {
            let number = numbers::number(name);
            let number = number.unwrap_or_else(|| unreachable!("there is no system call `{name}`"));
            self.rules.insert(number, rule);
        }
    }
}

/// Turns a filter into the bytes that travel to the guest.
pub fn to_bytes(filter: &[Instruction]) -> Vec<u8> {
    filter.iter().flat_map(|instruction| instruction.to_bytes()).collect()
}

mod errno {
    pub(super) const PERM: u16 = 1;
    pub(super) const INVAL: u16 = 22;
    pub(super) const NOTTY: u16 = 25;
    pub(super) const NOSYS: u16 = 38;
    pub(super) const OPNOTSUPP: u16 = 95;
    pub(super) const AFNOSUPPORT: u16 = 97;
}
