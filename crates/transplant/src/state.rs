//! What the kernel keeps for a process besides its memory: signal handlers,
//! the end of the heap, the file mode mask.

use crate::image::{Action, State};
use crate::refusal::{Doing, Refusal};
use crate::stopped::{Call, Stopped};

const BRK: u64 = 12;
const RT_SIGACTION: u64 = 13;
const UMASK: u64 = 95;
const SIGALTSTACK: u64 = 131;
const PRCTL: u64 = 157;

/// Where things lie in the room for arguments.
const STACK: u64 = 0;
const THREAD: u64 = 32;
const ACTIONS: u64 = 64;
const ACTION: usize = 32;
/// Bytes of a set of signals, as the kernel wants to be told.
const SET: u64 = 8;

/// Takes the state of a process.
pub(crate) fn take(stopped: &Stopped<'_>) -> Result<State, Refusal> {
    let status = Status::of(stopped)?;
    let signals = signals(status.handled);
    let room = stopped.room();
    let mut calls = vec![call("brk", BRK, [0; 3]), altstack([0, room + STACK])];
    for (&signal, at) in signals.iter().zip((room + ACTIONS..).step_by(ACTION)) {
        calls.push(sigaction(signal, 0, at));
    }
    let answers = stopped.run(&calls)?;
    let mut alternate_stack = [0; 24];
    stopped.peek(room + STACK, &mut alternate_stack).doing("read its signal stack")?;
    let mut bytes = vec![0; signals.len() * ACTION];
    stopped.peek(room + ACTIONS, &mut bytes).doing("read its signal handlers")?;
    let (actions, _) = bytes.as_chunks::<ACTION>();
    Ok(State {
        registers: stopped.registers(),
        extended: stopped.extended()?,
        mask: stopped.mask(),
        heap_end: answers.first().copied().unwrap_or(0),
        actions: signals
            .into_iter()
            .zip(actions)
            .map(|(signal, &bytes)| Action { signal, bytes })
            .collect(),
        alternate_stack,
        umask: status.umask,
        directory: stopped.files.link("cwd"),
        thread: status.thread,
    })
}

/// Gives a process that state, but for its registers.
pub(crate) fn give(stopped: &Stopped<'_>, state: &State) -> Result<(), Refusal> {
    let room = stopped.room();
    let status = Status::of(stopped)?;
    // What the process handles and the image does not goes back to default.
    let mut actions = state.actions.clone();
    for signal in signals(status.handled) {
        if !actions.iter().any(|action| action.signal == signal) {
            actions.push(Action { signal, bytes: [0; ACTION] });
        }
    }
    let bytes: Vec<u8> = actions.iter().flat_map(|action| action.bytes).collect();
    stopped.poke(room + ACTIONS, &bytes)?;
    let mut stack = state.alternate_stack;
    // "In use" is told, but cannot be set.
    if let Some(flags) = stack.get_mut(8) {
        *flags &= !1;
    }
    stopped.poke(room + STACK, &stack)?;
    let mut calls = vec![altstack([room + STACK, 0]), call("umask", UMASK, [state.umask, 0, 0])];
    for (action, at) in actions.iter().zip((room + ACTIONS..).step_by(ACTION)) {
        calls.push(sigaction(action.signal, at, 0));
    }
    stopped.run(&calls)?;
    change_directory(stopped, state)?;
    rename_thread(stopped, state.thread, status.thread)
}

/// Goes to the directory of the same name. There may be none in the other
/// sandbox; then it stays where it is, like after a directory was removed.
fn change_directory(stopped: &Stopped<'_>, state: &State) -> Result<(), Refusal> {
    const CHDIR: u64 = 80;
    const LONGEST: usize = 2048;
    let Some(name) = state.directory.as_ref().map(|name| name.as_bytes_with_nul()) else {
        return Ok(());
    };
    let now = stopped.files.link("cwd");
    if name.len() > LONGEST || now.is_some_and(|now| now.as_bytes_with_nul() == name) {
        return Ok(());
    }
    let room = stopped.room();
    stopped.poke(room, name)?;
    match stopped.run(&[call("chdir", CHDIR, [room, 0, 0])]) {
        Err(Refusal::Call { .. }) | Ok(_) => Ok(()),
        Err(refusal) => Err(refusal),
    }
}

/// C libraries keep the number of each thread in its memory, at a place that
/// the kernel knows. The copy has the number of the one it was copied from.
fn rename_thread(stopped: &Stopped<'_>, from: u32, to: u32) -> Result<(), Refusal> {
    const PR_GET_TID_ADDRESS: u64 = 40;
    let room = stopped.room();
    let question = call("prctl", PRCTL, [PR_GET_TID_ADDRESS, room + THREAD, 0]);
    // Kernels can be built without it. Then the old number stays, which only
    // locks shared between processes would notice.
    match stopped.run(&[question]) {
        Ok(_) => {}
        Err(Refusal::Call { .. }) => return Ok(()),
        Err(refusal) => return Err(refusal),
    }
    let mut address = [0; 8];
    stopped.peek(room + THREAD, &mut address).doing("read where its number is")?;
    let address = u64::from_le_bytes(address);
    let mut number = [0; 4];
    if stopped.peek(address, &mut number).is_ok() && u32::from_le_bytes(number) == from {
        stopped.poke(address, &to.to_le_bytes())?;
    }
    Ok(())
}

/// What `/proc/PID/status` tells.
#[derive(Debug, Default, PartialEq, Eq)]
struct Status {
    /// Signals with a handler, or ignored; one bit each.
    handled: u64,
    umask: u64,
    /// The number of the thread in its own pid namespace.
    thread: u32,
}

impl Status {
    fn of(stopped: &Stopped<'_>) -> Result<Self, Refusal> {
        Ok(Self::parse(&stopped.files.read("status", 16 << 10)?.unwrap_or_default()))
    }

    fn parse(text: &str) -> Self {
        let mut status = Self::default();
        for (key, value) in text.lines().filter_map(|line| line.split_once(':')) {
            let value = value.trim();
            match key {
                "SigIgn" | "SigCgt" => {
                    status.handled |= u64::from_str_radix(value, 16).unwrap_or(0);
                }
                "Umask" => status.umask = u64::from_str_radix(value, 8).unwrap_or(0o022),
                "NSpid" => {
                    let last = value.split_whitespace().last();
                    status.thread = last.and_then(|number| number.parse().ok()).unwrap_or(0);
                }
                _ => {}
            }
        }
        status
    }
}

/// All signals of a set but those that nobody can handle.
fn signals(set: u64) -> Vec<u64> {
    const KILL: u64 = 9;
    const STOP: u64 = 19;
    (1..=64)
        .filter(|signal| set >> (signal - 1) & 1 == 1 && ![KILL, STOP].contains(signal))
        .collect()
}

fn call(name: &'static str, number: u64, [first, second, third]: [u64; 3]) -> Call {
    Call { name, number, arguments: [first, second, third, 0, 0, 0] }
}

fn altstack([new, old]: [u64; 2]) -> Call {
    call("sigaltstack", SIGALTSTACK, [new, old, 0])
}

fn sigaction(signal: u64, new: u64, old: u64) -> Call {
    Call { name: "rt_sigaction", number: RT_SIGACTION, arguments: [signal, new, old, SET, 0, 0] }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_is_read() {
        let text = "Name:\tSigIgn: x\nUmask:\t0027\nNSpid:\t812\t7\n\
                    SigIgn:\t0000000001001000\nSigCgt:\t0000000000040102\n";
        let status = Status::parse(text);
        assert_eq!(status, Status { handled: 0x0104_1102, umask: 0o027, thread: 7 });
        assert_eq!(signals(status.handled), [2, 13, 25]);
    }
}
