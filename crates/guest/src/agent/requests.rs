//! What the host asks for.

use std::io;

use belljar_guest_proto::{Failure, FromGuest, Profile, PtySize, Reply, Request, Spawn, ToGuest};
use belljar_sys::{caps, signal};
use rustix::io::Errno;

use super::{Agent, Stillness};
use crate::call::Call;
use crate::confiner::Confiner;
use crate::dial::Dial;
use crate::files::Owner;
use crate::groups::Entry;
use crate::listen::Listener;
use crate::outcome::{Attempt, Outcome, refuse};
use crate::transfer::{Incoming, Outgoing};
use crate::watch::Watch;
use crate::{files, walk};

/// Connections that may be open at once.
const MOST_DIALS: usize = 1024;

/// Ports on which the guest may listen at once.
const MOST_LISTENERS: usize = 1024;

impl Agent {
    pub(super) fn take(&mut self, channel: u32, message: ToGuest<'_>) -> io::Result<()> {
        match message {
            ToGuest::Configure(profile) => {
                // Once anything was asked for, the profile stays.
                if self.settled {
                    return Err(io::ErrorKind::InvalidData.into());
                }
                self.configure(profile)?;
            }
            ToGuest::Request(request) if self.is_still_for(&request) => {
                let outcome = refuse("do anything while it holds still", Errno::AGAIN);
                self.wire.send(channel, &FromGuest::Reply(outcome));
            }
            ToGuest::Request(request) => {
                if !self.settled && !matches!(request, Request::Adopt { .. }) {
                    self.settled = true;
                    self.settle_rights()?;
                }
                let outcome = self.request(channel, request);
                if let Some(outcome) = outcome.transpose() {
                    self.wire.send(channel, &FromGuest::Reply(outcome));
                }
            }
            ToGuest::Data(bytes) => self.take_data(channel, bytes)?,
            ToGuest::Eof => self.take_eof(channel),
            ToGuest::Credit(bytes) => {
                if let Some(call) = self.calls.get_mut(&channel) {
                    call.credit = call.credit.saturating_add(bytes);
                } else if let Some(file) = self.outgoing.get_mut(&channel) {
                    file.credit = file.credit.saturating_add(bytes);
                } else if let Some(dial) = self.dials.get_mut(&channel) {
                    dial.credit = dial.credit.saturating_add(bytes);
                }
            }
            ToGuest::Cancel => {
                self.outgoing.remove(&channel);
                self.watches.remove(&channel);
                if let Some(dial) = self.dials.get_mut(&channel) {
                    dial.abandoned = true;
                }
                self.stop_listening(channel);
                self.abandon(channel);
            }
        }
        Ok(())
    }

    /// Answers a request; `None` when the answer comes later.
    fn request(&mut self, channel: u32, request: Request) -> Result<Option<Reply>, Failure> {
        let Some(confiner) = &self.confiner else {
            return refuse("do anything before the profile came", Errno::PERM);
        };
        let started = self.started;
        let as_user =
            |user, act: &mut dyn FnMut() -> Outcome| files::as_user(confiner, user, act).map(Some);
        match request {
            Request::Suspend => {
                self.stillness = Stillness::Asked(channel);
                Ok(None)
            }
            Request::Awaken(awaken) => self.awaken(awaken).map(Some),
            Request::Spawn(spawn) => self.start(channel, &spawn, Call::start),
            Request::Context(spawn) => self.start(channel, &spawn, Call::start_context),
            Request::Adopt { pid } => {
                let count = Call::ADOPTED.min(self.wire.descriptors.len());
                let call = Call::adopt(pid, self.wire.descriptors.drain(..count).collect())?;
                self.calls.insert(channel, call);
                Ok(Some(Reply::Started { pid }))
            }
            Request::Signal { call, signal } => self.signal(call, signal).map(Some),
            Request::Resize { call, size } => self.resize(call, size).map(Some),
            Request::Stat { user, path, attributes } => {
                as_user(user, &mut || files::stat(&path, attributes.as_deref()))
            }
            Request::List { user, path, depth, limit, attributes } => {
                as_user(user, &mut || walk::list(&path, depth, limit, attributes.as_deref()))
            }
            Request::MakeDir { user, owner, path, new } => {
                let owner = Owner::of(user, owner);
                as_user(user, &mut || files::make_dir(&path, new, owner))
            }
            Request::Rename { user, from, to } => as_user(user, &mut || files::rename(&from, &to)),
            Request::Remove { user, path } => as_user(user, &mut || walk::remove(&path)),
            Request::Changed { user, paths, limit } => {
                as_user(user, &mut || walk::changed(&paths, limit, started))
            }
            Request::Read { user, path } => {
                let (file, reply) = files::as_user(confiner, user, || Outgoing::open(&path))?;
                self.outgoing.insert(channel, file);
                Ok(Some(reply))
            }
            Request::Write { user, owner, path, mode, attributes } => {
                let owner = Owner::of(user, owner);
                let file = files::as_user(confiner, user, || {
                    let file = Incoming::create(user, &path, channel, owner)?;
                    file.describe(mode, &attributes, owner).inspect_err(|_| file.abandon())?;
                    Ok(file)
                })?;
                self.incoming.insert(channel, file);
                Ok(None)
            }
            Request::Watch { user, path, recursive } => {
                let watch = files::as_user(confiner, user, || Watch::start(&path, recursive))?;
                self.watches.insert(channel, watch);
                Ok(Some(Reply::Done))
            }
            Request::Dial { port } => {
                let dial = self.dial(port)?;
                let reply = dial.is_connected().then_some(Reply::Done);
                self.dials.insert(channel, dial);
                Ok(reply)
            }
            Request::Listen { port } => {
                let (listener, port) = self.listen(port)?;
                self.listeners.insert(channel, listener);
                Ok(Some(Reply::Listening { port }))
            }
            Request::Accept { listener } => {
                match self.listeners.get_mut(&listener) {
                    Some(listener) => listener.wait(channel)?,
                    None => return refuse("accept where nobody listens", Errno::NOTCONN),
                }
                Ok(None)
            }
        }
    }

    /// Takes over how calls are confined.
    pub(super) fn configure(&mut self, profile: Profile) -> io::Result<()> {
        match (profile.groups, &mut self.groups) {
            (Some(limits), Some(groups)) => groups.limit(limits)?,
            // The host would count on what is not there.
            (Some(_), None) => return Err(io::ErrorKind::InvalidData.into()),
            (None, _) => {}
        }
        self.confiner = Some(Confiner::new(profile, self.rights));
        // One that comes back from disk has a profile already; the new one may only be narrower.
        if self.settled { self.settle_rights() } else { Ok(()) }
    }

    /// Lets go of all capabilities that the profile does not give to root.
    fn settle_rights(&mut self) -> io::Result<()> {
        let Some(confiner) = &mut self.confiner else { return Ok(()) };
        self.rights.settle(caps::Set(confiner.profile.root_capabilities))?;
        confiner.rights = self.rights;
        Ok(())
    }

    fn start(
        &mut self,
        channel: u32,
        spawn: &Spawn,
        start: fn(&Spawn, &Confiner, Entry) -> Result<Call, Failure>,
    ) -> Result<Option<Reply>, Failure> {
        let Some(confiner) = &self.confiner else {
            return refuse("start anything before the profile came", Errno::PERM);
        };
        let count = usize::from(spawn.descriptors).min(self.wire.descriptors.len());
        let mut descriptors: Vec<_> = self.wire.descriptors.drain(..count).collect();
        let groups = self.groups.as_mut().filter(|_| confiner.profile.groups.is_some());
        let Some(groups) = groups else {
            let into = spawn.into_cgroup && !descriptors.is_empty();
            let cgroup = into.then(|| descriptors.remove(0));
            let call = start(spawn, confiner, Entry { cgroup, tasks: descriptors })?;
            self.calls.insert(channel, call);
            return Ok(None);
        };
        let entry = groups.open(channel).doing("make a group for the call")?;
        let call = start(spawn, confiner, entry).inspect_err(|_| groups.discard(channel))?;
        self.calls.insert(channel, call);
        Ok(None)
    }

    fn dial(&mut self, port: u16) -> Result<Dial, Failure> {
        if self.dials.len() >= MOST_DIALS {
            // Those that only wait for a server to read may not keep others out.
            self.dials.retain(|_, dial| !dial.abandoned);
        }
        if self.dials.len() >= MOST_DIALS {
            return refuse("open more connections at once", Errno::MFILE);
        }
        Dial::start(port)
    }

    fn listen(&self, port: u16) -> Result<(Listener, u16), Failure> {
        if self.listeners.len() >= MOST_LISTENERS {
            return refuse("listen on more ports at once", Errno::MFILE);
        }
        Listener::start(port)
    }

    pub(super) fn has_room_for_dials(&self) -> bool {
        self.dials.len() < MOST_DIALS
    }

    /// Hands out what has come to a listener.
    pub(super) fn accept(&mut self, channel: u32) {
        while self.has_room_for_dials()
            && let Some((taker, dial)) = self.listeners.get_mut(&channel).and_then(Listener::accept)
        {
            self.dials.insert(taker, dial);
            self.wire.send(taker, &FromGuest::Reply(Ok(Reply::Done)));
        }
    }

    /// Closes the listener of a channel, or takes the channel off the list of
    /// those who wait at one.
    fn stop_listening(&mut self, channel: u32) {
        if let Some(listener) = self.listeners.remove(&channel) {
            for waiting in listener.waiting {
                let outcome = refuse("accept where nobody listens any more", Errno::NOTCONN);
                self.wire.send(waiting, &FromGuest::Reply(outcome));
            }
        }
        for listener in self.listeners.values_mut() {
            listener.waiting.retain(|waiting| *waiting != channel);
        }
    }

    fn take_data(&mut self, channel: u32, bytes: &[u8]) -> io::Result<()> {
        if let Some(call) = self.calls.get_mut(&channel) {
            // Something is about to happen there.
            if let Some(groups) = &mut self.groups {
                groups.hurry();
            }
            let within = call.take_input(bytes);
            return if within { Ok(()) } else { Err(io::ErrorKind::InvalidData.into()) };
        }
        if let Some(dial) = self.dials.get_mut(&channel) {
            let within = dial.take_input(bytes);
            return if within { Ok(()) } else { Err(io::ErrorKind::InvalidData.into()) };
        }
        let Some(file) = self.incoming.get(&channel) else { return Ok(()) };
        if let Err(failure) = file.write(bytes) {
            self.abandon(channel);
            self.wire.send(channel, &FromGuest::Reply(Err(failure)));
        }
        Ok(())
    }

    fn take_eof(&mut self, channel: u32) {
        if let Some(call) = self.calls.get_mut(&channel) {
            call.end_input();
        } else if let Some(dial) = self.dials.get_mut(&channel) {
            dial.end_input();
        } else if let Some(file) = self.incoming.remove(&channel) {
            let outcome = self.settle(&file, Incoming::finish);
            self.wire.send(channel, &FromGuest::Reply(outcome));
        }
    }

    /// Forgets a file that was coming in, and what had come of it.
    pub(super) fn abandon(&mut self, channel: u32) {
        let Some(file) = self.incoming.remove(&channel) else { return };
        // What cannot be removed stays inside and goes with the sandbox.
        let _ = self.settle(&file, |file| {
            file.abandon();
            Ok(Reply::Done)
        });
    }

    /// Does the last step of a file that came in, with its user's rights.
    fn settle(&self, file: &Incoming, act: impl FnOnce(&Incoming) -> Outcome) -> Outcome {
        match &self.confiner {
            Some(confiner) => files::as_user(confiner, file.user, || act(file)),
            None => refuse("write before the profile came", Errno::PERM),
        }
    }

    fn resize(&self, channel: u32, size: PtySize) -> Outcome {
        let Some(call) = self.calls.get(&channel) else {
            return refuse("resize a call that is over", Errno::SRCH);
        };
        call.resize(size)?;
        if let Some(groups) = &self.groups {
            groups.resized(channel);
        }
        Ok(Reply::Done)
    }

    /// Signals the call's whole process group, which every process of it is in
    /// that did not leave on purpose; those the host ends by cgroup, and the
    /// guest where the groups are its own.
    fn signal(&mut self, call: u32, number: i32) -> Outcome {
        if number == signal::KILL && self.groups.as_mut().is_some_and(|groups| groups.kill(call)) {
            return Ok(Reply::Done);
        }
        let Some(call) = self.calls.get(&call).filter(|call| call.exit.is_none()) else {
            return refuse("signal a call that is over", Errno::SRCH);
        };
        if !(1..=64).contains(&number) {
            return refuse("send a signal that does not exist", Errno::INVAL);
        }
        signal::send(-call.pid, number).doing("signal the call")?;
        Ok(Reply::Done)
    }
}
