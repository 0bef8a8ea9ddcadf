//! What is refused, and that whoever is refused goes on unharmed.

use belljar_transplant::{Limits, Process, Refusal, capture, implant};
use rustix::process::{Signal, kill_process};

use crate::zygote::{Context, Walls, Zygote};

/// Captures after `source` and expects a refusal; the context goes on.
#[track_caller]
fn check(source: &str, is_expected: impl Fn(&Refusal) -> bool) {
    let Some(zygote) = Zygote::start() else { return };
    let context = zygote.context(Walls::None);
    assert_eq!(context.run(source), "");
    let refusal = zygote.try_capture(&context, None).unwrap_err();
    assert!(is_expected(&refusal), "{refusal}");
    assert_eq!(context.run("6 * 7"), "42");
    assert_untouched(&context);
}

/// Nothing of ours stays behind.
#[track_caller]
fn assert_untouched(context: &Context) {
    let pid = context.process.pid().as_raw_nonzero();
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
    assert!(!maps.lines().any(|line| line.starts_with("10000000-")), "{maps}");
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    assert!(status.contains("TracerPid:\t0\n"), "{status}");
}

#[test]
fn threads() {
    check(
        "import threading; hold = threading.Event(); threading.Thread(target=hold.wait, daemon=True).start()",
        |refusal| matches!(refusal, Refusal::Threads(2)),
    );
}

#[test]
fn shared_memory_that_can_be_written() {
    check(
        "import mmap; area = mmap.mmap(-1, 4096)",
        |refusal| matches!(refusal, Refusal::SharedMemory(name) if name.contains("zero")),
    );
}

#[test]
fn open_descriptors_are_named() {
    check(
        "import os; fd = os.open('/etc/hostname', os.O_RDONLY)",
        |refusal| matches!(refusal, Refusal::Descriptors(names) if names[0] == "4 (/etc/hostname)"),
    );
}

#[test]
fn a_context_that_is_busy() {
    let Some(zygote) = Zygote::start() else { return };
    let context = zygote.context(Walls::None);
    context.run(
        "import signal; go = [signal.SIGUSR1]; _ = signal.pthread_sigmask(signal.SIG_BLOCK, go)",
    );
    context.send("signal.sigwait(go) == go[0]");
    let refusal = loop {
        match capture(&context.process, &zygote.reference, None, &Limits::default()) {
            // It may not have begun yet.
            Ok(_) => {}
            Err(refusal) => break refusal,
        }
    };
    assert!(matches!(refusal, Refusal::Busy), "{refusal}");
    kill_process(context.process.pid(), Signal::USR1).unwrap();
    assert_eq!(context.answer(), "True");
}

#[test]
fn a_context_that_is_gone() {
    let Some(zygote) = Zygote::start() else { return };
    let context = zygote.context(Walls::None);
    context.send("__import__('os')._exit(0)");
    let pid = context.process.pid().as_raw_nonzero();
    while std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|s| !s.contains(") Z ")) {
        std::thread::yield_now();
    }
    let refusal =
        capture(&context.process, &zygote.reference, None, &Limits::default()).unwrap_err();
    assert!(matches!(refusal, Refusal::Gone), "{refusal}");
}

#[test]
fn a_process_of_another_zygote() {
    let (Some(zygote), Some(other)) = (Zygote::start(), Zygote::start()) else { return };
    let image = zygote.capture(&zygote.context(Walls::None), None);
    let stranger = other.context(Walls::None);
    let refusal = implant(&image, &stranger.process, &zygote.reference).unwrap_err();
    assert!(matches!(refusal, Refusal::Layout(_)), "{refusal}");
    assert_eq!(stranger.run("6 * 7"), "42");
    stranger.wait();
    let refusal = implant(&image, &stranger.process, &other.reference).unwrap_err();
    assert!(matches!(refusal, Refusal::ReferenceRan), "{refusal}");
}

#[test]
fn more_than_the_limits() {
    let Some(zygote) = Zygote::start() else { return };
    let context = zygote.context(Walls::None);
    context.run("big = bytearray(b'x') * (20 << 20)");
    context.wait();
    let limits = Limits { bytes: 16 << 20, ..Limits::default() };
    let refusal = capture(&context.process, &zygote.reference, None, &limits).unwrap_err();
    assert!(matches!(refusal, Refusal::TooLarge { .. }), "{refusal}");
    let limits = Limits { mappings: 50, ..Limits::default() };
    let refusal = capture(&context.process, &zygote.reference, None, &limits).unwrap_err();
    assert!(matches!(refusal, Refusal::TooManyMappings { limit: 50 }), "{refusal}");
    assert_eq!(context.run("len(big)"), "20971520");
    assert_untouched(&context);
}

#[test]
fn tens_of_thousands_of_mappings() {
    check(
        "import mmap\nareas = [mmap.mmap(-1, 4096, flags=mmap.MAP_PRIVATE, prot=n % 2 + 1) for n in range(20000)]",
        |refusal| matches!(refusal, Refusal::TooManyMappings { .. }),
    );
}

#[test]
fn a_vast_file_mapped_since() {
    check(
        "import mmap, os\nfd = os.memfd_create('x'); os.ftruncate(fd, 1 << 44)\n\
         area = mmap.mmap(fd, 1 << 44, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ)\nos.close(fd)\n\
         import gc; [os.close(n) for n in range(4, 40) if os.path.exists(f'/proc/self/fd/{n}')]",
        |refusal| matches!(refusal, Refusal::TooLarge { .. }),
    );
}

#[test]
fn vast_reservations_cost_nothing() {
    let Some(zygote) = Zygote::start() else { return };
    let context = zygote.context(Walls::None);
    context.run(
        "import ctypes; libc = ctypes.CDLL(None); libc.mmap.restype = ctypes.c_void_p\n\
         at = libc.mmap(None, ctypes.c_size_t(1 << 44), 3, 0x4022, -1, ctypes.c_long(0))\n\
         ctypes.memset(at + (1 << 43), 7, 100)",
    );
    let image = zygote.capture(&context, None);
    let child = zygote.child(&image, Walls::None);
    assert_eq!(child.run("ctypes.string_at(at + (1 << 43), 2), ctypes.string_at(at, 1)"), {
        "(b'\\x07\\x07', b'\\x00')"
    });
}

/// Memory of every protection, with content, and holes in it.
#[test]
fn every_protection_comes_along() {
    let Some(zygote) = Zygote::start() else { return };
    let context = zygote.context(Walls::None);
    context.run(
        "import ctypes; libc = ctypes.CDLL(None); libc.mmap.restype = ctypes.c_void_p\n\
         def area(prot, size):\n\
         \x20   at = libc.mmap(None, ctypes.c_size_t(size), 3, 0x22, -1, ctypes.c_long(0))\n\
         \x20   ctypes.memset(at, prot + 65, size)\n\
         \x20   assert libc.mprotect(ctypes.c_void_p(at), ctypes.c_size_t(size), prot) == 0\n\
         \x20   return at\n\
         small = [area(prot, 8192) for prot in range(8)]\n\
         large = [area(prot, 1 << 20) for prot in range(8)]\n\
         libc.munmap(ctypes.c_void_p(large[3] + 65536), ctypes.c_size_t(4096))",
    );
    let image = zygote.capture(&context, None);
    let again = zygote.capture(&context, Some(&image));
    for image in [&image, &again] {
        let child = zygote.child(image, Walls::None);
        child.run("for at in small + large: libc.mprotect(ctypes.c_void_p(at), 4096, 1)");
        assert_eq!(child.run("b''.join(ctypes.string_at(at + 9, 1) for at in small + large)"), {
            "b'ABCDEFGHABCDEFGH'"
        });
        assert_eq!(child.run("libc.msync(ctypes.c_void_p(large[3] + 65536), 4096, 1)"), "-1");
    }
}

#[test]
fn a_process_that_was_never_one_of_ours() {
    let Some(zygote) = Zygote::start() else { return };
    let process = Process::open(rustix::process::getpid()).unwrap();
    let refusal = capture(&process, &zygote.reference, None, &Limits::default()).unwrap_err();
    assert!(matches!(refusal, Refusal::Busy), "{refusal}");
}
