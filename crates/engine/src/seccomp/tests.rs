//! The filters, run by a small interpreter of classic BPF.

use belljar_sys::seccomp::Instruction;

use super::{
    Verdict, assemble, enclosed, guest, monitor, numbers, pinned, unconnected, user, zygote,
};

const NATIVE: u32 = 0xc000_003e;

fn verdict(filter: &[Instruction], arch: u32, number: u32, args: [u64; 6]) -> Verdict {
    let word = |offset: u32| match offset {
        0 => number,
        4 => arch,
        16.. => {
            let arg = args[((offset - 16) / 8) as usize];
            let half = if offset.is_multiple_of(8) { arg } else { arg >> 32 };
            u32::try_from(half & 0xffff_ffff).unwrap()
        }
        _ => panic!("no field at {offset}"),
    };
    let (mut at, mut accumulator) = (0usize, 0u32);
    loop {
        let i = filter[at];
        at += 1;
        let jump = |taken: bool| usize::from(if taken { i.jump_true } else { i.jump_false });
        match i.code {
            0x20 => accumulator = word(i.operand),
            0x54 => accumulator &= i.operand,
            0x05 => at += i.operand as usize,
            0x15 => at += jump(accumulator == i.operand),
            0x35 => at += jump(accumulator >= i.operand),
            0x06 => {
                return match i.operand & 0xffff_0000 {
                    0x7fff_0000 => Verdict::Allow,
                    0x0005_0000 => Verdict::Errno(u16::try_from(i.operand & 0xffff).unwrap()),
                    0x8000_0000 => Verdict::Kill,
                    other => panic!("unexpected answer {other:#x}"),
                };
            }
            other => panic!("unexpected instruction {other:#x}"),
        }
    }
}

fn ask(name: &str, args: [u64; 6]) -> Verdict {
    verdict(&assemble(&user()), NATIVE, numbers::number(name).unwrap(), args)
}

#[test]
fn every_rule_of_the_policy_survives_assembly() {
    for policy in [user(), enclosed(), guest(), zygote(), monitor(), unconnected(user())] {
        let filter = assemble(&policy);
        for &(number, name) in numbers::TABLE {
            let super::Rule::Now(want) = policy.rule(number) else { continue };
            assert_eq!(verdict(&filter, NATIVE, number, [0; 6]), want, "{name}");
        }
    }
}

#[test]
fn foreign_architectures_and_x32_are_killed() {
    let filter = assemble(&user());
    assert_eq!(verdict(&filter, 0x4000_0003, 1, [0; 6]), Verdict::Kill);
    assert_eq!(verdict(&filter, NATIVE, 0x4000_0001, [0; 6]), Verdict::Kill);
}

#[test]
fn numbers_of_the_future_do_not_exist() {
    let filter = assemble(&user());
    for number in [335, 400, 470, 1023, 0x3fff_ffff] {
        assert_eq!(verdict(&filter, NATIVE, number, [0; 6]), Verdict::Errno(38), "{number}");
    }
}

#[test]
fn high_bits_of_an_argument_change_nothing() {
    let dirty = 0xdead_beef_0000_0000u64;
    let cases: &[(&str, [u64; 6])] = &[
        ("ioctl", [0, 0x5412, 0, 0, 0, 0]),
        ("ioctl", [0, 0x5401, 0, 0, 0, 0]),
        ("socket", [38, 5, 0, 0, 0, 0]),
        ("socket", [2, 1, 0, 0, 0, 0]),
        ("socket", [16, 3, 12, 0, 0, 0]),
        ("clone", [0x1000_0000, 0, 0, 0, 0, 0]),
        ("personality", [0x4_0000, 0, 0, 0, 0, 0]),
        ("prctl", [22, 0, 0, 0, 0, 0]),
        ("kill", [1, 31, 0, 0, 0, 0]),
        ("mknod", [0, 0x2000, 0, 0, 0, 0]),
    ];
    for &(name, args) in cases {
        assert_eq!(ask(name, args), ask(name, args.map(|arg| arg | dirty)), "{name} {args:?}");
    }
}

#[test]
fn sockets_are_unix_tcp_and_route_netlink() {
    assert_eq!(ask("socket", [1, 2, 0, 0, 0, 0]), Verdict::Allow);
    assert_eq!(ask("socket", [2, 1 | 0o2_000_000, 0, 0, 0, 0]), Verdict::Allow);
    assert_eq!(ask("socket", [10, 1, 0, 0, 0, 0]), Verdict::Allow);
    assert_eq!(ask("socket", [16, 3, 0, 0, 0, 0]), Verdict::Allow);
    for (family, kind, protocol) in
        [(2, 2, 0), (2, 3, 1), (10, 2, 0), (16, 3, 6), (17, 3, 0), (38, 5, 0), (40, 1, 0)]
    {
        assert_ne!(ask("socket", [family, kind, protocol, 0, 0, 0]), Verdict::Allow, "{family}");
    }
    // On any other answer `useradd` gives up.
    const NETLINK_AUDIT: u64 = 9;
    assert_eq!(ask("socket", [16, 3, NETLINK_AUDIT, 0, 0, 0]), Verdict::Errno(97));
}

#[test]
fn the_guest_cannot_be_limited_or_slowed_down() {
    const NICEST: u64 = 19;
    const IDLE: u64 = 5;
    let on = |pid: u64| {
        [
            ("prlimit64", [pid, 7, 0, 0, 0, 0]),
            ("sched_setaffinity", [pid, 8, 0, 0, 0, 0]),
            ("sched_setscheduler", [pid, IDLE, 0, 0, 0, 0]),
            ("setpriority", [0, pid, NICEST, 0, 0, 0]),
        ]
    };
    for (name, args) in on(1) {
        assert_eq!(ask(name, args), Verdict::Errno(1), "{name}");
    }
    for (name, args) in on(0).into_iter().chain(on(2)).chain(on(11)) {
        assert_eq!(ask(name, args), Verdict::Allow, "{name} {args:?}");
    }
    // Of a process group; of all processes of a user.
    for (group, want) in [(0, Verdict::Allow), (1, Verdict::Errno(1)), (2, Verdict::Allow)] {
        assert_eq!(ask("setpriority", [1, group, NICEST, 0, 0, 0]), want, "{group}");
    }
    assert_eq!(ask("setpriority", [2, 0, NICEST, 0, 0, 0]), Verdict::Errno(1));
}

#[test]
fn calls_inside_gvisor_cannot_signal_the_guest() {
    let filter = assemble(&enclosed());
    let ask = |name: &str, args| verdict(&filter, NATIVE, numbers::number(name).unwrap(), args);
    for name in ["kill", "tkill", "tgkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo", "pidfd_open"] {
        assert_eq!(ask(name, [1, 9, 9, 0, 0, 0]), Verdict::Errno(1), "{name}");
        for target in [2, u64::MAX, 0] {
            assert_eq!(ask(name, [target, 9, 9, 0, 0, 0]), Verdict::Allow, "{name} {target}");
        }
    }
}

#[test]
fn sockets_of_the_process_tier_are_pairs_that_lead_nowhere_else() {
    const FLAGS: u64 = 0o2_004_000;
    for policy in [unconnected(user()), unconnected(guest()), pinned(unconnected(user()))] {
        let filter = assemble(&policy);
        let ask = |name: &str, family: u64, kind: u64| {
            let number = numbers::number(name).unwrap();
            verdict(&filter, NATIVE, number, [family, kind, 0, 0, 0, 0])
        };
        // Streams and sequences of packets.
        for kind in [1, 5] {
            assert_eq!(ask("socketpair", 1, kind), Verdict::Allow, "{kind}");
            assert_eq!(ask("socketpair", 1, kind | FLAGS), Verdict::Allow, "{kind}");
        }
        // Datagrams, under both names, and what is no type of such a socket.
        for kind in [2, 3, 0, 4, 6, 10] {
            assert_eq!(ask("socketpair", 1, kind), Verdict::Errno(1), "{kind}");
            assert_eq!(ask("socketpair", 1, kind | FLAGS), Verdict::Errno(1), "{kind}");
        }
        for family in [0, 2, 10, 16, 30] {
            assert_eq!(ask("socketpair", family, 1), Verdict::Errno(97), "{family}");
        }
        for (family, kind) in [(1, 1), (1, 2), (1, 5), (2, 1), (10, 1), (16, 3)] {
            assert_eq!(ask("socket", family, kind), Verdict::Errno(97), "{family} {kind}");
        }
    }
    // Elsewhere nothing of the host has an address that a pair could name.
    assert_eq!(ask("socketpair", [1, 2, 0, 0, 0, 0]), Verdict::Allow);
}

#[test]
fn sockets_take_no_programs_protocols_or_pages() {
    const SOCKET: u64 = 1;
    const TCP: u64 = 6;
    for call in ["setsockopt", "getsockopt"] {
        // Programs of both kinds, also for a group of ports; pages of the sender.
        for option in [26, 50, 51, 52, 60] {
            let args = [0, SOCKET, option, 0, 0, 0];
            assert_eq!(ask(call, args), Verdict::Errno(1), "{call} {option}");
        }
        // Other protocols in a socket's place; pages of the network.
        for option in [31, 35] {
            let args = [0, TCP, option, 0, 0, 0];
            assert_eq!(ask(call, args), Verdict::Errno(1), "{call} TCP {option}");
        }
        // SO_REUSEADDR and TCP_NODELAY.
        assert_eq!(ask(call, [0, SOCKET, 2, 0, 0, 0]), Verdict::Allow);
        assert_eq!(ask(call, [0, TCP, 1, 0, 0, 0]), Verdict::Allow);
    }
    // Urgent data, pages by reference, and connections without `connect`.
    for flag in [1, 0x400_0000, 0x2000_0000] {
        for call in ["sendto", "sendmmsg", "recvfrom", "recvmmsg"] {
            assert_eq!(ask(call, [0, 0, 0, flag, 0, 0]), Verdict::Errno(1), "{call} {flag:#x}");
        }
        for call in ["sendmsg", "recvmsg"] {
            assert_eq!(ask(call, [0, 0, flag, 0, 0, 0]), Verdict::Errno(1), "{call} {flag:#x}");
        }
    }
}

#[test]
fn threads_start_and_namespaces_do_not() {
    assert_eq!(ask("clone", [0x3d_0f00, 0, 0, 0, 0, 0]), Verdict::Allow);
    for flag in
        [0x80, 0x2_0000, 0x200_0000, 0x400_0000, 0x800_0000, 0x1000_0000, 0x2000_0000, 0x4000_0000]
    {
        assert_eq!(ask("clone", [flag, 0, 0, 0, 0, 0]), Verdict::Errno(1), "{flag:#x}");
    }
    assert_eq!(ask("clone3", [0; 6]), Verdict::Errno(38));
}

#[test]
fn the_guest_may_do_all_that_calls_may() {
    let (guest_filter, user_filter) = (assemble(&guest()), assemble(&user()));
    for &(number, name) in numbers::TABLE {
        if verdict(&user_filter, NATIVE, number, [0; 6]) == Verdict::Allow {
            assert_eq!(verdict(&guest_filter, NATIVE, number, [0; 6]), Verdict::Allow, "{name}");
        }
    }
}

#[test]
fn the_search_is_shallow() {
    // The kernel walks the program for every number when it is installed, and
    // for every call that it cannot decide by number alone.
    let depth = |segments: usize| segments.next_power_of_two().ilog2() as usize;
    let segments = super::assemble::segments(&user()).len();
    assert!(depth(segments) <= 8, "{segments} segments");
    assert!(assemble(&user()).len() < 500, "{}", assemble(&user()).len());
}

#[test]
fn a_zygote_may_enter_namespaces_and_leave_its_keyring_beyond_what_a_guest_may() {
    let (guest, zygote) = (assemble(&guest()), assemble(&zygote()));
    let mut more = Vec::new();
    for number in 0..512 {
        for first in [0u64, 1] {
            let args = [first, 0, 0, 0, 0, 0];
            let answers = [&guest, &zygote].map(|f| verdict(f, NATIVE, number, args));
            if answers[0] != answers[1] {
                more.push((number, first));
            }
        }
    }
    let (setns, keyctl) = (numbers::number("setns").unwrap(), numbers::number("keyctl").unwrap());
    let mut wanted = vec![(setns, 0), (setns, 1), (keyctl, 1)];
    wanted.sort_unstable();
    assert_eq!(more, wanted);
    // What an interpreter adds takes both away again.
    assert_eq!(ask("setns", [0; 6]), Verdict::Errno(1));
    assert_eq!(ask("keyctl", [1, 0, 0, 0, 0, 0]), Verdict::Errno(1));
}

#[test]
fn a_machine_monitor_that_reaches_for_the_kernel_is_gone() {
    let filter = assemble(&monitor());
    let ask = |name: &str, args| verdict(&filter, NATIVE, numbers::number(name).unwrap(), args);
    for name in ["ptrace", "mount", "bpf", "unshare", "setns", "userfaultfd", "init_module"] {
        assert_eq!(ask(name, [0; 6]), Verdict::Kill, "{name}");
    }
    // Asked for by honest ones, which do without.
    for name in ["io_uring_setup", "socket", "connect", "bind", "fork", "setuid", "chmod"] {
        assert_eq!(ask(name, [0; 6]), Verdict::Errno(1), "{name}");
    }
    assert_eq!(ask("clone", [0x3d_0f00, 0, 0, 0, 0, 0]), Verdict::Allow);
    assert_eq!(ask("ioctl", [0, 0xae80, 0, 0, 0, 0]), Verdict::Allow);
    assert_eq!(ask("ioctl", [0, 0x5412, 0, 0, 0, 0]), Verdict::Errno(1));
    // Its own filter, which it adds once it runs, takes this away for good.
    assert_eq!(ask("execve", [0; 6]), Verdict::Allow);
}
