//! Holding still to be put on disk, and coming back from there.
//!
//! Between the two nothing is sent unasked and no call is read from. On a kernel
//! of the sandbox's own the calls are frozen as well: a machine that was restored
//! runs the guest before any of them, so none draws a random number or reads a
//! clock that a copy of it would agree with.

use belljar_guest_proto::{Awaken, Failure, FromGuest, Reply, Request, WINDOW};
use belljar_sys::random;
use rustix::fs::{Mode, OFlags};
use rustix::time::{ClockId, Timespec};

use super::{Agent, Stillness, hello};
use crate::outcome::{Attempt, Outcome};

impl Agent {
    /// Whether this is no time for `request`.
    pub(super) fn is_still_for(&self, request: &Request) -> bool {
        self.stillness == Stillness::Still && !matches!(request, Request::Awaken(_))
    }

    /// Holds still if that was asked for, and nothing of another frame has come:
    /// after a restore, the rest of it never would.
    pub(super) fn hold_still(&mut self) {
        let Stillness::Asked(channel) = self.stillness else { return };
        if self.wire.decoder.holds_part() {
            return;
        }
        let outcome = self.freeze(true);
        if outcome.is_err() {
            // Whatever stopped goes on.
            let _ = self.freeze(false);
        }
        self.stillness = if outcome.is_ok() { Stillness::Still } else { Stillness::Serving };
        self.wire.send(channel, &FromGuest::Reply(outcome));
    }

    fn freeze(&mut self, frozen: bool) -> Outcome {
        if let Some(groups) = &mut self.groups {
            groups.freeze(frozen).doing("stop the calls")?;
        }
        Ok(Reply::Done)
    }

    /// Becomes a machine of its own, and serves again.
    pub(super) fn awaken(&mut self, awaken: Awaken) -> Outcome {
        if self.own_kernel {
            renew_kernel(&awaken)?;
        }
        self.configure(awaken.profile).doing("take over the profile")?;
        if let Some(keep) = &awaken.keep {
            self.forget_all_but(keep);
        }
        self.freeze(false)?;
        self.stillness = Stillness::Serving;
        if let Some(groups) = &mut self.groups {
            groups.hurry();
        }
        Ok(Reply::Awake(hello().doing("look at itself")?))
    }

    /// The host that knew the other channels is gone. Their calls run on, their
    /// transfers do not.
    fn forget_all_but(&mut self, keep: &[u32]) {
        let kept = |channel: &u32| keep.contains(channel);
        for (channel, call) in &mut self.calls {
            if kept(channel) { call.renew() } else { call.disown() }
        }
        for file in self.outgoing.values_mut() {
            file.credit = WINDOW;
        }
        self.outgoing.retain(|channel, _| kept(channel));
        self.watches.retain(|channel, _| kept(channel));
        self.dials.retain(|channel, _| kept(channel));
        self.listeners.retain(|channel, _| kept(channel));
        for dial in self.dials.values_mut() {
            dial.renew();
        }
        let lost: Vec<u32> = self.incoming.keys().copied().filter(|one| !kept(one)).collect();
        for channel in lost {
            self.abandon(channel);
        }
        // What waits to be read belongs to requests that never came.
        self.wire.descriptors.clear();
    }
}

/// Gives this kernel randomness that no copy of it has, and the time of day.
fn renew_kernel(awaken: &Awaken) -> Result<(), Failure> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    let device =
        rustix::fs::open("/dev/urandom", flags, Mode::empty()).doing("open /dev/urandom")?;
    for piece in awaken.entropy.chunks(random::MOST) {
        random::mix_in(std::os::fd::AsFd::as_fd(&device), piece).doing("mix randomness in")?;
    }
    let now = Timespec { tv_sec: awaken.seconds, tv_nsec: awaken.nanos.into() };
    rustix::time::clock_settime(ClockId::Realtime, now).doing("set the clock")
}
