//! What a copy holds, and that nobody sees what another one writes.

use crate::zygote::{Walls, Zygote};

#[test]
fn values_survive_in_other_namespaces() {
    let Some(zygote) = Zygote::start() else { return };
    let parent = zygote.context(Walls::Namespaces);
    parent.run("import math; data = {n: str(n) * 3 for n in range(20000)}; pi = math.pi * 2.5");
    let image = zygote.capture(&parent, None);
    let child = zygote.child(&image, Walls::Namespaces);
    assert_eq!(child.run("data[777], len(data)"), "('777777777', 20000)");
    assert_eq!(child.run("pi == math.pi * 2.5"), "True");
    assert_eq!(child.run("__import__('os').getpid()"), "1");
    assert_eq!(child.run("sorted(__import__('os').listdir('/proc/self/fd'))[:4]"), {
        "['0', '1', '2', '3']"
    });
    assert_eq!(parent.run("len(data)"), "20000");
}

#[test]
fn writes_stay_with_their_writer() {
    let Some(zygote) = Zygote::start() else { return };
    let parent = zygote.context(Walls::None);
    parent.run("big = bytearray(b'a') * (32 << 20); small = ['old']");
    let image = zygote.capture(&parent, None);
    let one = zygote.child(&image, Walls::None);
    let two = zygote.child(&image, Walls::None);
    parent.run("big[:] = b'p' * len(big); small[0] = 'parent'");
    one.run("big[5 << 20] = 0x31; small[0] = 'one'");
    let state = "chr(big[0]), chr(big[5 << 20]), big.count(b'a') == len(big), small";
    assert_eq!(two.run(state), "('a', 'a', True, ['old'])");
    assert_eq!(one.run(state), "('a', '1', False, ['one'])");
    assert_eq!(parent.run(state), "('p', 'p', False, ['parent'])");
    // An image does not change either.
    let three = zygote.child(&image, Walls::None);
    assert_eq!(three.run(state), "('a', 'a', True, ['old'])");
}

#[test]
fn repeated_images_take_only_what_changed() {
    let Some(zygote) = Zygote::start() else { return };
    let parent = zygote.context(Walls::None);
    parent.run("big = bytearray(64 << 20); big[:] = bytes(range(256)) * (len(big) >> 8)");
    let mut image = zygote.capture(&parent, None);
    assert!(image.taken_bytes() > 64 << 20);
    for round in 1..6u8 {
        parent.run(&format!("big[{round} << 20] = {round}; note = {round}"));
        image = zygote.capture(&parent, Some(&image));
        assert!(image.taken_bytes() < 16 << 20, "{} bytes", image.taken_bytes());
        let child = zygote.child(&image, Walls::None);
        assert_eq!(child.run("note, big[note << 20]"), format!("({round}, {round})"));
        assert_eq!(child.run("big[77], big[(9 << 20) + 200], len(big)"), "(77, 200, 67108864)");
    }
}

#[test]
fn a_copy_can_be_copied() {
    let Some(zygote) = Zygote::start() else { return };
    let mut line = vec![zygote.context(Walls::None)];
    line[0].run("big = bytearray(8 << 20); trail = []");
    let mut image = None;
    for generation in 0..5 {
        let last = &line[generation];
        last.run(&format!("trail.append({generation}); big[{generation} * 5000] = 1"));
        let taken = zygote.capture(last, image.as_ref());
        line.push(zygote.child(&taken, Walls::None));
        image = Some(taken);
    }
    assert_eq!(line[5].run("trail, sum(big)"), "([0, 1, 2, 3, 4], 5)");
    assert_eq!(line[2].run("trail, sum(big)"), "([0, 1, 2], 3)");
}

#[test]
fn libraries_imported_later_come_along() {
    let Some(zygote) = Zygote::start() else { return };
    let parent = zygote.context(Walls::None);
    parent.run("import decimal, sqlite3, ssl, hashlib, random");
    parent.run("base = sqlite3.connect(':memory:'); base.execute('create table t (x)')");
    parent.run("base.executemany('insert into t values (?)', [(n,) for n in range(1000)])");
    let image = zygote.capture(&parent, None);
    let child = zygote.child(&image, Walls::None);
    assert_eq!(child.run("base.execute('select sum(x) from t').fetchone()"), "(499500,)");
    assert_eq!(child.run("decimal.Decimal(2).sqrt().is_finite()"), "True");
    assert_eq!(child.run("ssl.create_default_context().verify_mode.name"), "'CERT_REQUIRED'");
    assert_eq!(child.run("hashlib.sha256(b'x').hexdigest()[:8]"), "'2d711642'");
    child.run("import csv, zlib, lzma");
    assert_eq!(child.run("lzma.decompress(lzma.compress(b'x' * 9999)) == b'x' * 9999"), "True");
}

#[test]
fn a_grown_and_a_shrunk_heap_come_along() {
    let Some(zygote) = Zygote::start() else { return };
    let parent = zygote.context(Walls::None);
    parent.run(
        "many = [str(n) for n in range(400000)]; blocks = [bytes(100000) for _ in range(300)]",
    );
    parent.run("many = many[::1000]; del blocks[::2]; import gc; gc.collect()");
    let image = zygote.capture(&parent, None);
    let child = zygote.child(&image, Walls::None);
    assert_eq!(child.run("len(many), many[5], len(blocks), sum(map(len, blocks))"), {
        "(400, '5000', 150, 15000000)"
    });
    child.run("del many, blocks; gc.collect(); many = [str(n) for n in range(400000)]");
    assert_eq!(child.run("many[399999]"), "'399999'");
    // Back to a context that is smaller than the one waiting.
    parent.run("del many, blocks; gc.collect()");
    let image = zygote.capture(&parent, Some(&image));
    let child = zygote.context(Walls::None);
    child.run("junk = [str(n) for n in range(400000)]");
    child.wait();
    belljar_transplant::implant(&image, &child.process, &zygote.reference).unwrap();
    assert_eq!(child.run("sorted(k for k in globals() if k in ('junk', 'many', 'gc'))"), "['gc']");
    child.run("many = [bytes(5000) for n in range(10000)]");
    assert_eq!(child.run("sum(map(len, many))"), "50000000");
}

#[test]
fn a_deep_stack_comes_along() {
    let Some(zygote) = Zygote::start() else { return };
    let parent = zygote.context(Walls::None);
    parent.run("import sys; sys.setrecursionlimit(100000)");
    parent.run("def dive(n): return serve(sock) if n == 0 else list(map(dive, [n - 1]))[0]");
    // From here on it answers from within, thousands of frames down.
    parent.send("dive(3000)");
    assert_eq!(parent.run("sys.getrecursionlimit()"), "100000");
    let image = zygote.capture(&parent, None);
    let child = zygote.child(&image, Walls::None);
    assert_eq!(child.run("len(__import__('inspect').stack()) > 2900"), "True");
    assert_eq!(parent.run("1 + 1"), "2");
}

#[test]
fn handlers_and_masks_come_along() {
    let Some(zygote) = Zygote::start() else { return };
    let parent = zygote.context(Walls::None);
    parent.run("import signal, os; hits = []; os.umask(0o27)");
    parent.run("signal.signal(signal.SIGUSR1, lambda *_: hits.append(1))");
    parent.run("signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR2])");
    parent.run("signal.signal(signal.SIGHUP, signal.SIG_IGN)");
    let image = zygote.capture(&parent, None);
    let child = zygote.child(&image, Walls::Namespaces);
    assert_eq!(child.run("oct(os.umask(0o22))"), "'0o27'");
    assert_eq!(
        child.run("os.kill(os.getpid(), signal.SIGUSR1), os.kill(os.getpid(), signal.SIGHUP)"),
        { "(None, None)" }
    );
    assert_eq!(child.run("hits"), "[1]");
    assert_eq!(child.run("signal.SIGUSR2 in signal.pthread_sigmask(signal.SIG_BLOCK, [])"), "True");
    assert_eq!(parent.run("hits"), "[]");
}

#[test]
fn memory_that_was_given_back_is_empty() {
    let Some(zygote) = Zygote::start() else { return };
    let parent = zygote.context(Walls::None);
    parent.run("import mmap; area = mmap.mmap(-1, 1 << 20, flags=mmap.MAP_PRIVATE)");
    parent.run("area[:] = b'z' * (1 << 20); area.madvise(mmap.MADV_DONTNEED, 8192, 4096)");
    let image = zygote.capture(&parent, None);
    let child = zygote.child(&image, Walls::None);
    assert_eq!(child.run("area[0], area[8192], area[12288]"), "(122, 0, 122)");
}

/// Generators of random numbers keep their state where fork(2) wipes it.
#[test]
fn memory_that_fork_wipes_is_wiped() {
    let Some(zygote) = Zygote::start() else { return };
    let parent = zygote.context(Walls::None);
    parent.run("import mmap, os; area = mmap.mmap(-1, 8192, flags=mmap.MAP_PRIVATE)");
    parent.run("area.madvise(18); area[:] = b'z' * 8192; os.urandom(8)");
    let mut image = zygote.capture(&parent, None);
    for _ in 0..2 {
        let one = zygote.child(&image, Walls::None);
        let two = zygote.child(&image, Walls::None);
        assert_eq!(one.run("area[:2], area[8191]"), "(b'\\x00\\x00', 0)");
        assert_ne!(one.run("os.urandom(16)"), two.run("os.urandom(16)"));
        // And so it is in children of the child.
        one.run("area[:] = b'y' * 8192; pid = os.fork(); pid or os._exit(area[0])");
        assert_eq!(one.run("os.waitpid(pid, 0)[1], area[0]"), "(0, 121)");
        image = zygote.capture(&parent, Some(&image));
    }
    assert_eq!(parent.run("area[0]"), "122");
}

#[test]
fn the_working_directory_comes_along_where_there_is_one() {
    let Some(zygote) = Zygote::start() else { return };
    let parent = zygote.context(Walls::Namespaces);
    parent.run("import os; os.chdir('/usr/lib')");
    let child = zygote.child(&zygote.capture(&parent, None), Walls::Namespaces);
    assert_eq!(child.run("os.getcwd()"), "'/usr/lib'");
}

#[test]
fn a_signal_meanwhile_is_not_lost() {
    let Some(zygote) = Zygote::start() else { return };
    let parent = zygote.context(Walls::None);
    parent.run("import signal, os; hits = 0\ndef hit(*_): global hits; hits += 1");
    parent.run("signal.signal(signal.SIGUSR1, hit)");
    let pid = parent.process.pid();
    let mut image = None;
    for _ in 0..50 {
        let sender = std::thread::spawn(move || {
            rustix::process::kill_process(pid, rustix::process::Signal::USR1).unwrap();
        });
        // The signal may win, but it never harms.
        match zygote.try_capture(&parent, image.as_ref()) {
            Ok(next) => image = Some(next),
            Err(refusal) => assert!(matches!(refusal, belljar_transplant::Refusal::Busy)),
        }
        sender.join().unwrap();
        // One signal at a time: those of a kind that wait are one.
        parent.run("0");
    }
    assert_eq!(parent.run("hits"), "50");
}
