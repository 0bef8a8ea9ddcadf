//! Warm interpreters, from which those of sandboxes are forked.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use belljar_domain::Spec;
use rustix::pipe::{PipeFlags, pipe_with};

use super::burial::kill;
use super::{Sandbox, Spawner};
use crate::cgroup::SandboxGroup;
use crate::defence::Weakened;
use crate::jail::apply::{Interpreter, Program};
use crate::jail::parent::{Born, Cradle, Owner, Stillborn, bear};
use crate::jail::{Attempt, Failure};
use crate::plan::{Plan, USER_UID};
use crate::state::Lease;
use crate::wire::{self, FromSpawner};

impl Spawner {
    /// A zygote as the owner of sandboxes. It has a range of user ids like one.
    pub(super) fn zygote(&self, number: u32) -> Result<Owner<'_>, Failure> {
        let gone = || Failure::new("find the zygote", &io::ErrorKind::NotFound.into());
        let zygote = self.zygotes.get(&number).ok_or_else(gone)?;
        let socket = zygote.socket.as_ref().ok_or_else(gone)?;
        let (lease, slot) = zygote.slot;
        Ok(Owner { uid: Lease::first_uid(lease, slot) + USER_UID, socket })
    }

    pub(super) fn answer_zygote(
        &mut self,
        sequence: u64,
        number: u32,
        spec: &Spec,
        (argv, env): (Vec<CString>, Vec<CString>),
        library: OwnedFd,
    ) -> io::Result<()> {
        let (complaints, theirs) = pipe_with(PipeFlags::CLOEXEC)?;
        let interpreter = Interpreter { argv, env, library, complaints: theirs };
        match self.start_zygote(number, spec, &interpreter) {
            Ok((pid, uid, stream)) => {
                let answer = FromSpawner::ZygoteStarted { sequence, pid, uid };
                wire::send(&self.socket, &answer, &[stream.as_fd(), complaints.as_fd()])
            }
            Err(failure) => {
                wire::send(&self.socket, &FromSpawner::Failed { sequence, failure }, &[])
            }
        }
    }

    fn start_zygote(
        &mut self,
        number: u32,
        spec: &Spec,
        interpreter: &Interpreter,
    ) -> Result<(u32, u32, OwnedFd), Failure> {
        if !self.facts.privileged {
            // Without root there are no user ids to give a zygote one of.
            let denied = io::ErrorKind::PermissionDenied.into();
            return Err(Failure::new("start a zygote without root", &denied));
        }
        let slot = self.take_slot()?;
        let first_uid = Lease::first_uid(slot.0, slot.1);
        let uid = first_uid + USER_UID;
        let families = self.hierarchies.as_ref();
        let made = families.map_or(Ok(()), |h| h.create_family(self.engine, number, uid));
        let group =
            self.hierarchies.as_ref().map(|h| SandboxGroup::of_zygote(h, self.engine, number));
        let base = self.state.base();
        let cradle = Cradle {
            program: Program::Zygote(interpreter),
            filter: &self.zygote_filter,
            base: &base,
            devices: self.devices.as_deref(),
            work: None,
            privileged: true,
            weakened: &Weakened::default(),
            archive: None,
            owner: None,
            fork: None,
            idmap: None,
            stage: None,
        };
        let made = made.doing("make the zygote's cgroups").map_err(Stillborn::from);
        let born =
            made.and_then(|()| bear(spec, &Plan::zygote(spec), &cradle, group.as_ref(), first_uid));
        match born {
            Ok(Born { pid, pidfd, stream, .. }) => {
                let number_of = u32::try_from(pid.as_raw_nonzero().get()).unwrap_or(0);
                let socket = Some(stream.try_clone().doing("copy the zygote's socket")?);
                let (work, birth, is_loose) = (None, None, false);
                let zygote = Sandbox { pid, pidfd, slot, group, work, socket, birth, is_loose };
                self.zygotes.insert(number, zygote);
                Ok((number_of, uid, stream))
            }
            Err(Stillborn { failure, left }) => {
                let cleared = self.clear(left, slot, group, None);
                if cleared.is_ok() && self.remove_family(number).is_ok() {
                    self.free.push_back(slot);
                }
                Err(failure)
            }
        }
    }

    pub(super) fn end_zygote(&mut self, number: u32) {
        let Some(zygote) = self.zygotes.remove(&number) else { return };
        kill(&zygote);
        // One that cannot be buried keeps its user ids for good.
        if self.bury(&zygote).is_ok() && self.remove_family(number).is_ok() {
            self.free.push_back(zygote.slot);
        }
    }

    fn remove_family(&self, number: u32) -> io::Result<()> {
        self.hierarchies.as_ref().map_or(Ok(()), |h| h.remove_family(self.engine, number))
    }
}
