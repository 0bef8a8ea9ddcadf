//! The loop: what the host asks, what calls do, what ends.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use belljar_guest_proto::{Exit, Failure, FromGuest, GENERATION, Hello, Reply, Request, ToGuest};
use belljar_sys::process::WaitStatus;
use belljar_sys::{caps, process, signal};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

use crate::call::Call;
use crate::confiner::Confiner;
use crate::dial::Dial;
use crate::outcome::{Attempt, Outcome, refuse};
use crate::transfer::{Incoming, Outgoing};
use crate::watch::Watch;
use crate::wire::Wire;
use crate::{files, walk};

pub(crate) struct Agent {
    wire: Wire,
    signals: OwnedFd,
    /// Nothing runs before the host has said how it is confined.
    confiner: Option<Confiner>,
    calls: BTreeMap<u32, Call>,
    outgoing: BTreeMap<u32, Outgoing>,
    incoming: BTreeMap<u32, Incoming>,
    watches: BTreeMap<u32, Watch>,
    dials: BTreeMap<u32, Dial>,
    started: (i64, i64),
    /// Whether anything was asked for that the profile decides about.
    settled: bool,
}

/// What a descriptor in the poll list belongs to.
enum Source {
    Wire,
    Signals,
    Report(u32),
    Stream,
    Watch(u32),
    Dial(u32),
}

/// Connections that may be open at once.
const MOST_DIALS: usize = 1024;

impl Agent {
    pub(crate) fn new(stream: OwnedFd) -> io::Result<Self> {
        let signals = signal::descriptor(&[signal::CHILD])?;
        // The clock that files are stamped with, which ticks more coarsely.
        let now = rustix::time::clock_gettime(rustix::time::ClockId::RealtimeCoarse);
        let mut wire = Wire::new(stream)?;
        let (seccomp, no_new_privs) = process::confinement()?;
        let hello = Hello {
            generation: GENERATION,
            pid: std::process::id(),
            uid: rustix::process::getuid().as_raw(),
            capabilities: caps::effective()?.0,
            no_new_privs: no_new_privs == 1,
            seccomp: seccomp == 2,
        };
        wire.send(0, &FromGuest::Hello(hello));
        Ok(Self {
            wire,
            signals,
            confiner: None,
            calls: BTreeMap::new(),
            outgoing: BTreeMap::new(),
            incoming: BTreeMap::new(),
            watches: BTreeMap::new(),
            dials: BTreeMap::new(),
            started: (now.tv_sec, now.tv_nsec),
            settled: false,
        })
    }

    /// Serves until the host closes the stream.
    pub(crate) fn run(mut self) -> io::Result<()> {
        let served = self.serve();
        // As pid 1 its own end takes everything along. Where it is not, it ends
        // what it can reach; the host's cgroup does the rest.
        for call in self.calls.values() {
            let _ = signal::send(-call.pid, signal::KILL);
        }
        served
    }

    fn serve(&mut self) -> io::Result<()> {
        loop {
            self.pump();
            self.wire.flush()?;
            if !self.wait()? {
                return Ok(());
            }
        }
    }

    /// Moves everything that can move without waiting.
    fn pump(&mut self) {
        for (&channel, call) in &mut self.calls {
            call.pump_input(channel, &mut self.wire);
            call.pump_output(channel, &mut self.wire);
        }
        self.calls.retain(|_, call| !call.is_over());
        let wire = &mut self.wire;
        self.outgoing.retain(|&channel, file| !file.pump(channel, wire));
        self.dials.retain(|&channel, dial| {
            dial.pump(channel, wire);
            !dial.is_over()
        });
    }

    /// Waits for something to happen and takes it in. `false`: the end.
    fn wait(&mut self) -> io::Result<bool> {
        let ready = self.poll()?;
        let mut open = true;
        for source in ready {
            match source {
                Source::Wire => open = self.receive()?,
                Source::Signals => self.reap()?,
                Source::Report(channel) => self.finish_start(channel),
                Source::Watch(channel) => {
                    if let Some(watch) = self.watches.get_mut(&channel) {
                        watch.pump(channel, &mut self.wire);
                    }
                }
                Source::Dial(channel) => {
                    if let Some(dial) = self.dials.get_mut(&channel) {
                        dial.settle(channel, &mut self.wire);
                    }
                }
                // The next pump reads and writes what is ready.
                Source::Stream => {}
            }
        }
        Ok(open)
    }

    fn poll(&self) -> io::Result<Vec<Source>> {
        let mut wire_flags = PollFlags::IN;
        if self.wire.wants_to_send() {
            wire_flags |= PollFlags::OUT;
        }
        let mut watched = vec![
            (Source::Wire, self.wire.as_fd(), wire_flags),
            (Source::Signals, self.signals.as_fd(), PollFlags::IN),
        ];
        for (&channel, call) in &self.calls {
            if let Some(report) = &call.report {
                watched.push((Source::Report(channel), report.as_fd(), PollFlags::IN));
            }
            if call.credit > 0 && self.wire.has_room() {
                for stream in call.sources() {
                    watched.push((Source::Stream, stream.as_fd(), PollFlags::IN));
                }
            }
            if let (true, Some(stdin)) = (call.wants_input(), &call.stdin) {
                watched.push((Source::Stream, stdin.as_fd(), PollFlags::OUT));
            }
        }
        for (&channel, watch) in &self.watches {
            watched.push((Source::Watch(channel), watch.inotify.as_fd(), PollFlags::IN));
        }
        for (&channel, dial) in &self.dials {
            let flags = dial.interest(self.wire.has_room());
            if !flags.is_empty() {
                watched.push((Source::Dial(channel), dial.socket.as_fd(), flags));
            }
        }
        let mut fds: Vec<_> =
            watched.iter().map(|&(_, fd, flags)| PollFd::from_borrowed_fd(fd, flags)).collect();
        let busy = self.wire.has_room() && self.outgoing.values().any(Outgoing::is_ready);
        let at_once = rustix::time::Timespec { tv_sec: 0, tv_nsec: 0 };
        match poll(&mut fds, busy.then_some(&at_once)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        let ready: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
        drop(fds);
        let sources = watched.into_iter().zip(ready);
        Ok(sources.filter(|(_, ready)| *ready).map(|((source, ..), _)| source).collect())
    }

    /// Reads from the host. `false`: it has closed the stream.
    fn receive(&mut self) -> io::Result<bool> {
        let open = self.wire.receive()?;
        let mut decoder = std::mem::take(&mut self.wire.decoder);
        let broken = |_| io::Error::from(io::ErrorKind::InvalidData);
        while let Some((header, body)) = decoder.next_frame().map_err(broken)? {
            let message = ToGuest::decode(header, body).map_err(broken)?;
            self.take(header.channel, message)?;
        }
        self.wire.decoder = decoder;
        Ok(open)
    }

    fn take(&mut self, channel: u32, message: ToGuest<'_>) -> io::Result<()> {
        match message {
            ToGuest::Configure(profile) => {
                // Once anything was asked for, the profile stays.
                if self.settled {
                    return Err(io::ErrorKind::InvalidData.into());
                }
                self.confiner = Some(Confiner::new(profile));
            }
            ToGuest::Request(request) => {
                self.settled |= !matches!(request, Request::Adopt { .. });
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
        let profile = &confiner.profile;
        let started = self.started;
        let as_user =
            |user, act: &mut dyn FnMut() -> Outcome| files::as_user(profile, user, act).map(Some);
        match request {
            Request::Suspend | Request::Awaken(_) => refuse("hold still", Errno::OPNOTSUPP),
            Request::Spawn(spawn) => {
                let count = usize::from(spawn.descriptors).min(self.wire.descriptors.len());
                let descriptors = self.wire.descriptors.drain(..count).collect();
                let call = Call::start(&spawn, confiner, descriptors)?;
                self.calls.insert(channel, call);
                Ok(None)
            }
            Request::Context(spawn) => {
                let count = usize::from(spawn.descriptors).min(self.wire.descriptors.len());
                let descriptors = self.wire.descriptors.drain(..count).collect();
                let call = Call::start_context(&spawn, confiner, descriptors)?;
                self.calls.insert(channel, call);
                Ok(None)
            }
            Request::Adopt { pid } => {
                let count = Call::ADOPTED.min(self.wire.descriptors.len());
                let call = Call::adopt(pid, self.wire.descriptors.drain(..count).collect())?;
                self.calls.insert(channel, call);
                Ok(Some(Reply::Started { pid }))
            }
            Request::Signal { call, signal } => self.signal(call, signal).map(Some),
            Request::Resize { call, size } => match self.calls.get(&call) {
                Some(call) => call.resize(size).map(|()| Some(Reply::Done)),
                None => refuse("resize a call that is over", Errno::SRCH),
            },
            Request::Stat { user, path, attributes } => {
                as_user(user, &mut || files::stat(&path, attributes.as_deref()))
            }
            Request::List { user, path, depth, limit, attributes } => {
                as_user(user, &mut || walk::list(&path, depth, limit, attributes.as_deref()))
            }
            Request::MakeDir { user, path, new } => {
                as_user(user, &mut || files::make_dir(&path, new))
            }
            Request::Rename { user, from, to } => as_user(user, &mut || files::rename(&from, &to)),
            Request::Remove { user, path } => as_user(user, &mut || walk::remove(&path)),
            Request::Changed { user, paths, limit } => {
                as_user(user, &mut || walk::changed(&paths, limit, started))
            }
            Request::Read { user, path } => {
                let (file, reply) = files::as_user(profile, user, || Outgoing::open(&path))?;
                self.outgoing.insert(channel, file);
                Ok(Some(reply))
            }
            Request::Write { user, path, mode, attributes } => {
                let file = files::as_user(profile, user, || {
                    let file = Incoming::create(user, &path, channel)?;
                    file.describe(mode, &attributes).inspect_err(|_| file.abandon())?;
                    Ok(file)
                })?;
                self.incoming.insert(channel, file);
                Ok(None)
            }
            Request::Watch { user, path, recursive } => {
                let watch = files::as_user(profile, user, || Watch::start(&path, recursive))?;
                self.watches.insert(channel, watch);
                Ok(Some(Reply::Done))
            }
            Request::Dial { port } => {
                let dial = self.dial(port)?;
                let reply = dial.is_connected().then_some(Reply::Done);
                self.dials.insert(channel, dial);
                Ok(reply)
            }
        }
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

    fn take_data(&mut self, channel: u32, bytes: &[u8]) -> io::Result<()> {
        if let Some(call) = self.calls.get_mut(&channel) {
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
    fn abandon(&mut self, channel: u32) {
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
            Some(confiner) => files::as_user(&confiner.profile, file.user, || act(file)),
            None => refuse("write before the profile came", Errno::PERM),
        }
    }

    /// Signals the call's whole process group, which every process of it is in
    /// that did not leave on purpose; those the host ends by cgroup.
    fn signal(&self, call: u32, number: i32) -> Outcome {
        let Some(call) = self.calls.get(&call).filter(|call| call.exit.is_none()) else {
            return refuse("signal a call that is over", Errno::SRCH);
        };
        if !(1..=64).contains(&number) {
            return refuse("send a signal that does not exist", Errno::INVAL);
        }
        signal::send(-call.pid, number).doing("signal the call")?;
        Ok(Reply::Done)
    }

    fn finish_start(&mut self, channel: u32) {
        let Some(call) = self.calls.get_mut(&channel) else { return };
        match call.read_report() {
            None => {}
            Some(Ok(())) => {
                let pid = u32::try_from(call.pid).unwrap_or(0);
                self.wire.send(channel, &FromGuest::Reply(Ok(Reply::Started { pid })));
            }
            Some(Err(failure)) => {
                self.calls.remove(&channel);
                self.wire.send(channel, &FromGuest::Reply(Err(failure)));
            }
        }
    }

    fn reap(&mut self) -> io::Result<()> {
        let mut discarded = [0u8; 1024];
        while rustix::io::read(&self.signals, &mut discarded).is_ok_and(|count| count > 0) {}
        while let Some((pid, status, usage)) = process::reap_any()? {
            // What is not a call of ours is an orphan that some call left.
            let Some(call) = self.calls.values_mut().find(|call| call.pid == pid) else {
                continue;
            };
            let (code, signal) = match status {
                WaitStatus::Exited(code) => (Some(code), None),
                WaitStatus::Signaled(signal) => (None, Some(signal)),
            };
            call.exit = Some(Exit {
                code,
                signal,
                cpu_micros: usage.cpu_micros,
                max_rss_bytes: usage.max_rss_bytes,
                counters: None,
            });
        }
        Ok(())
    }
}
