//! What a process may try while it is copied. It may spoil its own copy, or be
//! ended; it may not harm, hold up or confuse whoever copies.

use std::time::{Duration, Instant};

use belljar_transplant::{Limits, Refusal, capture, implant};

use rustix::process::Pid;

use crate::zygote::{Context, Walls, Zygote};

const CLONE: &str = "
import ctypes, os, signal, resource
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
";

#[test]
fn memory_that_another_process_changes_meanwhile() {
    let Some(zygote) = Zygote::start() else { return };
    let context = zygote.context(Walls::None);
    context.run(CLONE);
    // A process beside it, with the same memory (CLONE_VM), that writes all over
    // the place where calls and their answers stand, and maps and unmaps what is
    // read. It has only seconds to live, for when this test fails.
    //
    //   again: mmap(0x20000000, 1 MiB, read and write, private, fixed, populated)
    //          munmap(0x20000000, 512 KiB)
    //          64 times: getrandom(0x10001000, 8192)
    //          jmp again
    let code = "b809000000bf00000020be00001000ba0300000041ba328000004983c8ff4531c90f05b80b00\
                0000bf00000020be000008000f05b94000000041bc40000000b83e010000bf00100010be0020\
                000031d20f0541ffcc75e8eba7";
    context.run(&format!(
        "resource.setrlimit(resource.RLIMIT_CPU, (1, 1)); code = bytes.fromhex('{code}')\n\
         at = libc.mmap(None, 65536, 7, 0x22, -1, ctypes.c_long(0))\n\
         ctypes.memmove(at, code, len(code))\n\
         pid = libc.clone(ctypes.c_void_p(at), ctypes.c_void_p(at + 65000), 0x100 | 17, None)"
    ));
    let racer = context.run("pid").parse().ok().and_then(Pid::from_raw).unwrap();
    let begun = Instant::now();
    let mut taken = 0;
    for _ in 0..100 {
        match zygote.try_capture(&context, None) {
            Ok(image) => {
                taken += 1;
                let child = zygote.context(Walls::None);
                // It is a copy of a moment that never was, but it is confined.
                let _ = implant(&image, &child.process, &zygote.reference);
            }
            Err(Refusal::Gone | Refusal::Stuck) => break,
            Err(_) => {}
        }
        if context.try_run("pid").is_none() {
            break;
        }
    }
    println!("{taken} images taken in {:?}", begun.elapsed());
    rustix::process::kill_process(racer, rustix::process::Signal::KILL).unwrap();
    assert!(begun.elapsed() < Duration::from_secs(60));
}

#[test]
fn processes_that_end_at_any_moment() {
    let Some(zygote) = Zygote::start() else { return };
    for delay in 0..60u64 {
        let parent = zygote.context(Walls::None);
        parent.run("big = bytearray(4 << 20)");
        let child = zygote.context(Walls::None);
        let image = zygote.capture(&parent, None);
        let end = |context: &Context| {
            let pid = context.process.pid();
            std::thread::spawn(move || {
                let begun = Instant::now();
                while begun.elapsed() < Duration::from_micros(delay * 50) {
                    std::hint::spin_loop();
                }
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
            })
        };
        let limits = Limits::default();
        let killer = end(&parent);
        let outcome = capture(&parent.process, &zygote.reference, Some(&image), &limits);
        killer.join().unwrap();
        // "Busy" is what it looks like on its way out.
        assert!(matches!(
            outcome,
            Ok(_) | Err(Refusal::Gone | Refusal::Busy | Refusal::System { .. })
        ));
        let killer = end(&child);
        let outcome = implant(&image, &child.process, &zygote.reference);
        killer.join().unwrap();
        let is_plain = matches!(
            outcome,
            Ok(())
                | Err(Refusal::Gone
                    | Refusal::Busy
                    | Refusal::System { .. }
                    | Refusal::Unreadable { .. })
        );
        assert!(is_plain, "{outcome:?}");
    }
}

#[test]
fn a_process_that_can_open_nothing_more() {
    let Some(zygote) = Zygote::start() else { return };
    let context = zygote.context(Walls::None);
    context.run("import resource, os; big = bytearray(b'x') * (1 << 20)");
    context.run("resource.setrlimit(resource.RLIMIT_NOFILE, (4, 4))");
    let image = zygote.capture(&context, None);
    let child = zygote.child(&image, Walls::None);
    assert_eq!(child.run("big.count(b'x')"), "1048576");
    assert_eq!(context.run("big.count(b'x')"), "1048576");
}

#[test]
fn places_that_we_use_ourselves_are_taken() {
    let Some(zygote) = Zygote::start() else { return };
    let context = zygote.context(Walls::None);
    context.run(CLONE);
    context.run(
        "at = libc.mmap(ctypes.c_void_p(0x10000000), ctypes.c_size_t(1 << 20), 3, 0x32, -1, ctypes.c_long(0))\n\
         ctypes.memset(at, 7, 1 << 20)",
    );
    let image = zygote.capture(&context, None);
    let child = zygote.child(&image, Walls::None);
    assert_eq!(child.run("ctypes.string_at(at, 1 << 20).count(7)"), "1048576");
}

/// We trap a process with this signal; its own handler is none of that.
#[test]
fn a_process_that_handles_traps() {
    let Some(zygote) = Zygote::start() else { return };
    let context = zygote.context(Walls::None);
    context.run("import signal, ctypes; traps = []\nsignal.signal(signal.SIGTRAP, lambda *_: traps.append(1))");
    let image = zygote.capture(&context, None);
    let child = zygote.child(&image, Walls::None);
    for one in [&context, &child] {
        one.run("signal.raise_signal(signal.SIGTRAP)");
        assert_eq!(one.run("traps"), "[1]");
    }
}
