//! Loaded into a warm interpreter, the zygote: forks it into sandboxes.
//!
//! The interpreter calls two functions. `belljar_receive` waits for a request
//! of the host; `belljar_fork` carries it out. In the child that answers 0 the
//! interpreter is a process of the sandbox like any other: in its namespaces
//! and cgroups, without capabilities, behind Landlock and the filter, with no
//! descriptor but its own. Only then does it run any code for anyone.
//!
//! The zygote itself has no rights on the host. It owns the user namespaces of
//! the sandboxes that it serves, which is what lets it enter them.

mod child;
mod request;

use std::cell::RefCell;
use std::io;

use belljar_sys::enter::{Entered, fork_into};
use belljar_sys::process::Namespaces;
use rustix::thread::Timespec;

use crate::request::Received;

/// How often a sandbox that cannot be entered is tried again.
const TRIES: usize = 50;
const PAUSE: Timespec = Timespec { tv_sec: 0, tv_nsec: 200_000 };
const EPERM: i32 = 1;

thread_local! {
    /// What was received and not yet carried out. There is one thread.
    static WAITING: RefCell<Option<Received>> = const { RefCell::new(None) };
}

belljar_sys::export! {
    /// Waits for a request on the socket. 0: there is one; else an errno, or
    /// -1 when the host has hung up.
    fn belljar_receive(socket: i32) -> i32 {
        match request::receive(socket) {
            Ok(received) => {
                WAITING.set(Some(received));
                0
            }
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => -1,
            Err(error) => error.raw_os_error().unwrap_or(22),
        }
    }
}

belljar_sys::export! {
    /// Forks for the request that was received. 0: this is the child, confined;
    /// more: its pid; less: the errno for which there is none.
    fn belljar_fork(_unused: i32) -> i32 {
        let Some(received) = WAITING.take() else { return -22 };
        // The sandbox may still be mounting its file systems; the rest is there
        // from the first moment on.
        let early = Namespaces::USER
            .and(Namespaces::PID)
            .and(Namespaces::NET)
            .and(Namespaces::IPC)
            .and(Namespaces::UTS);
        let mut forked = fork_into(received.target(), early, received.cgroup());
        for _ in 0..TRIES {
            if !forked.as_ref().is_err_and(|error| error.raw_os_error() == Some(EPERM)) {
                break;
            }
            // In the moment of a change of user the sandbox's first process
            // cannot be followed by anyone.
            let _ = rustix::thread::nanosleep(&PAUSE);
            forked = fork_into(received.target(), early, received.cgroup());
        }
        match forked {
            Ok(Entered::Child) => {
                child::settle(received);
                0
            }
            Ok(Entered::Parent(pid)) => pid.as_raw_nonzero().get(),
            Err(error) => -error.raw_os_error().unwrap_or(22),
        }
    }
}
