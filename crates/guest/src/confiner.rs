//! How calls are confined, prepared once for all of them.

use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use belljar_guest_proto::{Access, Failure, Profile};
use belljar_sys::landlock::{self, Ruleset, Scope};
use belljar_sys::seccomp::Instruction;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::outcome::Attempt;

pub(crate) struct Confiner {
    pub(crate) profile: Profile,
    filter: Vec<Instruction>,
    /// One ruleset for each user id that has run something.
    rulesets: BTreeMap<u32, Ruleset>,
}

/// What one call is confined with.
#[derive(Clone, Copy)]
pub(crate) struct Confinement<'a> {
    pub(crate) profile: &'a Profile,
    pub(crate) filter: &'a [Instruction],
    pub(crate) landlock: Option<&'a Ruleset>,
}

impl Confiner {
    pub(crate) fn new(profile: Profile) -> Self {
        let filter = profile.seccomp.as_chunks::<{ Instruction::SIZE }>().0.iter();
        let filter = filter.map(|&bytes| Instruction::from_bytes(bytes)).collect();
        Self { profile, filter, rulesets: BTreeMap::new() }
    }

    pub(crate) fn for_user(&mut self, user: u32) -> Result<Confinement<'_>, Failure> {
        if self.profile.landlock_abi > 0 && !self.rulesets.contains_key(&user) {
            self.rulesets.insert(user, ruleset(&self.profile, user)?);
        }
        let landlock = self.rulesets.get(&user);
        Ok(Confinement { profile: &self.profile, filter: &self.filter, landlock })
    }
}

/// Builds the Landlock rules for calls of `user`.
fn ruleset(profile: &Profile, user: u32) -> Result<Ruleset, Failure> {
    let scope = Scope { no_tcp: profile.no_tcp, ipc: true };
    let ruleset = Ruleset::new(profile.landlock_abi, scope).doing("make a Landlock ruleset")?;
    for rule in &profile.paths {
        if rule.only_uid.is_some_and(|only| only != user) {
            continue;
        }
        let path = Path::new(std::ffi::OsStr::from_bytes(&rule.path));
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let file = match rustix::fs::open(path, flags, Mode::empty()) {
            Ok(file) => file,
            // A template need not have every directory of the profile.
            Err(Errno::NOENT) => continue,
            Err(errno) => return Err(errno).doing("open a path of the profile"),
        };
        let stat = rustix::fs::fstat(&file).doing("look at a path of the profile")?;
        let is_dir = rustix::fs::FileType::from_raw_mode(stat.st_mode).is_dir();
        let access = match rule.access {
            Access::Read => landlock::access::READ,
            Access::Write => landlock::access::WRITE,
            Access::Device => landlock::access::WRITE | landlock::access::IOCTL_DEV,
        };
        let access = if is_dir { access } else { access & landlock::access::ON_FILES };
        ruleset.allow(file.as_fd(), access).doing("allow a path of the profile")?;
    }
    Ok(ruleset)
}
