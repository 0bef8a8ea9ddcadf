//! The allowed system calls, and the reasons for the others.

mod allowed;

use super::Rule::{Now, Switch};
use super::Verdict::{Allow, Errno, Kill};
use super::{Policy, Rule, errno};
use allowed::ALLOWED;

const EPERM: super::Verdict = Errno(errno::PERM);

/// No program of a sandbox has an honest use for these.
const HOSTILE: &[&str] = &[
    "init_module",
    "finit_module",
    "delete_module",
    "create_module",
    "kexec_load",
    "kexec_file_load",
    "reboot",
    "swapon",
    "swapoff",
];

/// Page references moved between files and pipes: the primitive of Dirty Pipe
/// and its later kin. Programs fall back to copying on these errors.
const BY_REFERENCE: &[&str] = &["splice", "tee", "vmsplice", "sendfile"];

const NEW_NAMESPACES: u32 = 0x7e02_0080;

/// Urgent data has had its own kernel bugs; fast open connects without the
/// call that Landlock watches; zero copy sends references to pages.
const MSG_OOB: u32 = 1;
const MSG_ZEROCOPY: u32 = 0x400_0000;
const MSG_FASTOPEN: u32 = 0x2000_0000;
const fn plain_flags(arg: u8) -> Rule {
    let mask = MSG_OOB | MSG_ZEROCOPY | MSG_FASTOPEN;
    Switch { arg, mask, cases: &[(0, Now(Allow))], otherwise: EPERM }
}

/// A signal argument that may not be SIGSYS: only the kernel may send that, so
/// that dying of it always means that this filter struck.
const SIGSYS: u32 = 31;
const fn not_sigsys(arg: u8) -> Rule {
    Switch { arg, mask: u32::MAX, cases: &[(SIGSYS, Now(EPERM))], otherwise: Allow }
}

/// A process id argument that may not be the guest's, which is 1 inside. Root of a sandbox with
/// the profile `full` may become the guest's user, and the kernel lets users limit and slow down
/// their own processes.
const fn not_the_guest(arg: u8) -> Rule {
    Switch { arg, mask: u32::MAX, cases: &[(GUEST_PID, Now(EPERM))], otherwise: Allow }
}
const GUEST_PID: u32 = 1;

/// Priorities of processes and process groups, as `nice` sets them. Those of all processes of a
/// user could be the guest's.
const SET_PRIORITY: Rule = Switch {
    arg: 0,
    mask: u32::MAX,
    cases: &[(PRIO_PROCESS, not_the_guest(1)), (PRIO_PGRP, not_the_guest(1))],
    otherwise: EPERM,
};
const PRIO_PROCESS: u32 = 0;
const PRIO_PGRP: u32 = 1;

/// SCHED_OTHER, BATCH and IDLE; 0x40000000 is RESET_ON_FORK.
const SCHEDULER: Rule = Switch {
    arg: 1,
    mask: !0x4000_0000,
    cases: &[(0, not_the_guest(0)), (3, not_the_guest(0)), (5, not_the_guest(0))],
    otherwise: EPERM,
};

/// Regular files, FIFOs and sockets; no devices.
const fn no_devices(arg: u8) -> Rule {
    Switch {
        arg,
        mask: 0xf000,
        cases: &[(0, Now(Allow)), (0x8000, Now(Allow)), (0x1000, Now(Allow)), (0xc000, Now(Allow))],
        otherwise: EPERM,
    }
}

/// Plain TCP: no datagrams, and none of the other protocols behind a stream
/// socket (MPTCP, SMC, SCTP), which slip past rules made for TCP.
const STREAM_ONLY: Rule = Switch { arg: 1, mask: 0xf, cases: &[(1, TCP_ONLY)], otherwise: EPERM };
const TCP_ONLY: Rule =
    Switch { arg: 2, mask: u32::MAX, cases: &[(0, Now(Allow)), (6, Now(Allow))], otherwise: EPERM };

/// AF_UNIX; TCP over IPv4 and IPv6; NETLINK_ROUTE to read addresses. Any other protocol is
/// answered as by a kernel without it: `useradd` and PAM go on without NETLINK_AUDIT then, and
/// give up on EPERM.
const AF_UNIX: u32 = 1;
const AF_INET: u32 = 2;
const AF_INET6: u32 = 10;
const AF_NETLINK: u32 = 16;
const NETLINK_ROUTE: u32 = 0;

const SOCKET: Rule = Switch {
    arg: 0,
    mask: u32::MAX,
    cases: &[
        (AF_UNIX, Now(Allow)),
        (AF_INET, STREAM_ONLY),
        (AF_INET6, STREAM_ONLY),
        (
            AF_NETLINK,
            Switch {
                arg: 2,
                mask: u32::MAX,
                cases: &[(NETLINK_ROUTE, Now(Allow))],
                otherwise: Errno(errno::AFNOSUPPORT),
            },
        ),
    ],
    otherwise: Errno(errno::AFNOSUPPORT),
};

const SOCKETPAIR: Rule = Switch {
    arg: 0,
    mask: u32::MAX,
    cases: &[(AF_UNIX, Now(Allow))],
    otherwise: Errno(errno::AFNOSUPPORT),
};

/// The bits of a socket's type that are no flags.
const SOCK_TYPE_MASK: u32 = 0xf;
const SOCK_STREAM: u32 = 1;
const SOCK_SEQPACKET: u32 = 5;

/// Pairs that stay pairs. One end of a pair of datagrams can be sent from, or connected, to any
/// socket of datagrams that it can name, and SOCK_RAW makes such a pair, too. The kernel
/// refuses to connect the end of a stream or of a sequence of packets, and ignores an address
/// that is sent to.
const CONNECTED_PAIR: Rule = Switch {
    arg: 0,
    mask: u32::MAX,
    cases: &[(
        AF_UNIX,
        Switch {
            arg: 1,
            mask: SOCK_TYPE_MASK,
            cases: &[(SOCK_STREAM, Now(Allow)), (SOCK_SEQPACKET, Now(Allow))],
            otherwise: EPERM,
        },
    )],
    otherwise: Errno(errno::AFNOSUPPORT),
};

/// Terminals and sockets as programs use them; nothing else of any driver.
const IOCTL: Rule = Switch {
    arg: 1,
    mask: u32::MAX,
    cases: &[
        (0x5401, Now(Allow)),      // TCGETS
        (0x5402, Now(Allow)),      // TCSETS
        (0x5403, Now(Allow)),      // TCSETSW
        (0x5404, Now(Allow)),      // TCSETSF
        (0x5409, Now(Allow)),      // TCSBRK
        (0x540a, Now(Allow)),      // TCXONC
        (0x540b, Now(Allow)),      // TCFLSH
        (0x540e, Now(Allow)),      // TIOCSCTTY
        (0x540f, Now(Allow)),      // TIOCGPGRP
        (0x5410, Now(Allow)),      // TIOCSPGRP
        (0x5411, Now(Allow)),      // TIOCOUTQ
        (0x5413, Now(Allow)),      // TIOCGWINSZ
        (0x5414, Now(Allow)),      // TIOCSWINSZ
        (0x541b, Now(Allow)),      // FIONREAD
        (0x5421, Now(Allow)),      // FIONBIO
        (0x5422, Now(Allow)),      // TIOCNOTTY
        (0x5429, Now(Allow)),      // TIOCGSID
        (0x5450, Now(Allow)),      // FIONCLEX
        (0x5451, Now(Allow)),      // FIOCLEX
        (0x5452, Now(Allow)),      // FIOASYNC
        (0x8004_5430, Now(Allow)), // TIOCGPTN
        (0x4004_5431, Now(Allow)), // TIOCSPTLCK
        (0x802c_542a, Now(Allow)), // TCGETS2
        (0x402c_542b, Now(Allow)), // TCSETS2
        (0x8910, Now(Allow)),      // SIOCGIFNAME
        (0x8912, Now(Allow)),      // SIOCGIFCONF
        (0x8913, Now(Allow)),      // SIOCGIFFLAGS
        (0x8915, Now(Allow)),      // SIOCGIFADDR
        (0x8921, Now(Allow)),      // SIOCGIFMTU
        (0x8933, Now(Allow)),      // SIOCGIFINDEX
        (0x5412, Now(EPERM)),      // TIOCSTI types into the terminal
        (0x541c, Now(EPERM)),      // TIOCLINUX
    ],
    otherwise: Errno(errno::NOTTY),
};

const PRCTL: Rule = Switch {
    arg: 0,
    mask: u32::MAX,
    cases: &[
        (1, not_sigsys(1)), // PR_SET_PDEATHSIG
        (2, Now(Allow)),    // PR_GET_PDEATHSIG
        (3, Now(Allow)),    // PR_GET_DUMPABLE
        (4, Switch { arg: 1, mask: !1, cases: &[(0, Now(Allow))], otherwise: EPERM }),
        (7, Now(Allow)),           // PR_GET_KEEPCAPS
        (15, Now(Allow)),          // PR_SET_NAME
        (16, Now(Allow)),          // PR_GET_NAME
        (21, Now(Allow)),          // PR_GET_SECCOMP
        (23, Now(Allow)),          // PR_CAPBSET_READ
        (27, Now(Allow)),          // PR_GET_SECUREBITS
        (29, Now(Allow)),          // PR_SET_TIMERSLACK
        (30, Now(Allow)),          // PR_GET_TIMERSLACK
        (36, Now(Allow)),          // PR_SET_CHILD_SUBREAPER
        (37, Now(Allow)),          // PR_GET_CHILD_SUBREAPER
        (38, Now(Allow)),          // PR_SET_NO_NEW_PRIVS: can only be set
        (39, Now(Allow)),          // PR_GET_NO_NEW_PRIVS
        (40, Now(Allow)),          // PR_GET_TID_ADDRESS
        (41, Now(Allow)),          // PR_SET_THP_DISABLE
        (42, Now(Allow)),          // PR_GET_THP_DISABLE
        (47, Now(Allow)),          // PR_CAP_AMBIENT: nothing left to raise
        (52, Now(Allow)),          // PR_GET_SPECULATION_CTRL
        (0x5356_4d41, Now(Allow)), // PR_SET_VMA names mappings
    ],
    otherwise: EPERM,
};

const SOL_SOCKET: u32 = 1;
const SOL_TCP: u32 = 6;
const SO_ATTACH_FILTER: u32 = 26;
const SO_ATTACH_BPF: u32 = 50;
const SO_ATTACH_REUSEPORT_CBPF: u32 = 51;
const SO_ATTACH_REUSEPORT_EBPF: u32 = 52;
const SO_ZEROCOPY: u32 = 60;
const TCP_ULP: u32 = 31;
const TCP_ZEROCOPY_RECEIVE: u32 = 35;

/// SO_ATTACH_FILTER and its kin load programs into the kernel, TCP_ULP other protocols
/// (kTLS). SO_ZEROCOPY leaves pages of the program in the network's queues: references
/// like those of `splice`; TCP_ZEROCOPY_RECEIVE, which is read, maps the network's pages
/// into the program. One rule for both calls: what may not be set need not be read.
const SOCKET_OPTIONS: Rule = Switch {
    arg: 1,
    mask: u32::MAX,
    cases: &[
        (
            SOL_SOCKET,
            Switch {
                arg: 2,
                mask: u32::MAX,
                cases: &[
                    (SO_ATTACH_FILTER, Now(EPERM)),
                    (SO_ATTACH_BPF, Now(EPERM)),
                    (SO_ATTACH_REUSEPORT_CBPF, Now(EPERM)),
                    (SO_ATTACH_REUSEPORT_EBPF, Now(EPERM)),
                    (SO_ZEROCOPY, Now(EPERM)),
                ],
                otherwise: Allow,
            },
        ),
        (
            SOL_TCP,
            Switch {
                arg: 2,
                mask: u32::MAX,
                cases: &[(TCP_ULP, Now(EPERM)), (TCP_ZEROCOPY_RECEIVE, Now(EPERM))],
                otherwise: Allow,
            },
        ),
    ],
    otherwise: Allow,
};

/// F_SETSIG chooses the signal of an I/O event.
const FCNTL: Rule =
    Switch { arg: 1, mask: u32::MAX, cases: &[(10, not_sigsys(2))], otherwise: Allow };

const NO_HUGE_PAGES: Rule =
    Switch { arg: 3, mask: 0x4_0000, cases: &[(0, Now(Allow))], otherwise: EPERM };

/// The filter of the code itself.
pub fn user() -> Policy {
    let mut policy = Policy::default();
    policy.set(ALLOWED, Now(Allow));
    policy.set(HOSTILE, Now(Kill));
    policy.set(BY_REFERENCE, Now(Errno(errno::INVAL)));
    // Its flags are in memory, where a filter cannot read them; C libraries
    // fall back to clone.
    policy.set(&["clone3"], Now(Errno(errno::NOSYS)));
    policy.set(
        &["clone"],
        Switch { arg: 0, mask: NEW_NAMESPACES, cases: &[(0, Now(Allow))], otherwise: EPERM },
    );
    // Flushing every file system of the host is not for a guest to ask; the
    // call cannot fail, so it succeeds without effect.
    policy.set(&["sync"], Now(Errno(0)));
    policy.set(&["mmap"], NO_HUGE_PAGES);
    policy.set(
        &["memfd_create"],
        Switch { arg: 1, mask: 0x4, cases: &[(0, Now(Allow))], otherwise: EPERM },
    );
    policy.set(&["socket"], SOCKET);
    policy.set(&["socketpair"], SOCKETPAIR);
    policy.set(&["sendto", "recvfrom", "sendmmsg", "recvmmsg"], plain_flags(3));
    policy.set(&["sendmsg", "recvmsg"], plain_flags(2));
    policy.set(&["setsockopt", "getsockopt"], SOCKET_OPTIONS);
    policy.set(&["ioctl"], IOCTL);
    policy.set(&["prctl"], PRCTL);
    policy.set(&["fcntl"], FCNTL);
    policy.set(&["kill", "tkill", "rt_sigqueueinfo", "pidfd_send_signal"], not_sigsys(1));
    policy.set(&["tgkill", "rt_tgsigqueueinfo"], not_sigsys(2));
    policy.set(&["prlimit64", "sched_setaffinity"], not_the_guest(0));
    policy.set(&["setpriority"], SET_PRIORITY);
    policy.set(&["mknod"], no_devices(1));
    policy.set(&["mknodat"], no_devices(2));
    policy.set(
        &["personality"],
        Switch {
            arg: 0,
            mask: u32::MAX,
            cases: &[(0, Now(Allow)), (u32::MAX, Now(Allow))],
            otherwise: EPERM,
        },
    );
    // RWF_NOWAIT tells what is in the page cache.
    policy.set(
        &["preadv2", "pwritev2"],
        Switch {
            arg: 5,
            mask: u32::MAX,
            cases: &[(0, Now(Allow))],
            otherwise: Errno(errno::OPNOTSUPP),
        },
    );
    policy.set(&["sched_setscheduler"], SCHEDULER);
    // The real-time class is 1 in the top three bits of the 16.
    policy.set(
        &["ioprio_set"],
        Switch { arg: 2, mask: 0xe000, cases: &[(0x2000, Now(EPERM))], otherwise: Allow },
    );
    policy
}

/// The filter of calls inside gVisor, whose kernel is the wall. It keeps them in the groups that
/// the guest counts and ends them by: without namespaces of their own, they cannot mount that
/// kernel's cgroups. And it keeps signals from the guest: gVisor does not protect the first
/// process from those of root, as Linux does.
pub fn enclosed() -> Policy {
    let mut policy = Policy::default();
    policy.rules.extend(super::numbers::TABLE.iter().map(|&(number, _)| (number, Now(Allow))));
    let doors = [
        "unshare",
        "setns",
        "mount",
        "umount2",
        "pivot_root",
        "open_tree",
        "move_mount",
        "fsopen",
        "fsconfig",
        "fsmount",
        "fspick",
        "mount_setattr",
    ];
    policy.set(&doors, Now(EPERM));
    policy.set(&["clone3"], Now(Errno(errno::NOSYS)));
    policy.set(
        &["clone"],
        Switch { arg: 0, mask: NEW_NAMESPACES, cases: &[(0, Now(Allow))], otherwise: EPERM },
    );
    let signals = ["kill", "tkill", "tgkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo"];
    policy.set(&signals, not_the_guest(0));
    policy.set(&["pidfd_open", "prlimit64", "sched_setaffinity"], not_the_guest(0));
    policy.set(&["sched_setscheduler"], not_the_guest(0));
    policy.set(&["setpriority"], SET_PRIORITY);
    policy
}

/// The same filter for the tier that shares the host's network, IPC and file system.
/// Landlock rules neither datagrams nor connections to sockets with a path, so no socket
/// is made that could reach an address; pairs that lead nowhere else stay. Nothing rules
/// System V IPC and message queues either.
pub fn unconnected(mut policy: Policy) -> Policy {
    policy.set(&["socket"], Now(Errno(errno::AFNOSUPPORT)));
    policy.set(&["socketpair"], CONNECTED_PAIR);
    let shared = ["shmget", "shmat", "shmctl", "semget", "semctl", "msgget", "msgctl", "mq_open"];
    policy.set(&shared, Now(Errno(errno::NOSYS)));
    policy
}

/// The same filter without space that is reserved before it is written to: C libraries
/// write zeros instead, at the pace of writing.
pub fn unreserving(mut policy: Policy) -> Policy {
    policy.set(&["fallocate"], Now(Errno(errno::OPNOTSUPP)));
    policy
}

/// The same filter for code that is kept to some cores by its affinity alone, which it
/// must not change.
pub fn pinned(mut policy: Policy) -> Policy {
    policy.set(&["sched_setaffinity"], Now(Errno(errno::PERM)));
    policy
}

/// The filter of a process that reads descriptors it already has, computes, and
/// writes its answer: no file is opened, no socket made, no program started.
pub fn reader() -> Policy {
    const THREAD: u32 = 0x1_0000;
    const EXECUTABLE: u32 = 4;
    const SHARED: u32 = 1;
    const PRIVATE: &[(u32, Rule)] =
        &[(0, Switch { arg: 3, mask: SHARED, cases: &[(0, Now(Allow))], otherwise: EPERM })];
    let mut policy = Policy::default();
    let computing = [
        "read",
        "pread64",
        "readv",
        "preadv",
        "write",
        "writev",
        "lseek",
        "close",
        "brk",
        "munmap",
        "mremap",
        "madvise",
        "futex",
        "sched_yield",
        "sched_getaffinity",
        "getrandom",
        "clock_gettime",
        "clock_nanosleep",
        "gettimeofday",
        "gettid",
        "getpid",
        "rt_sigaction",
        "rt_sigprocmask",
        "rt_sigreturn",
        "sigaltstack",
        "set_robust_list",
        "rseq",
        "restart_syscall",
        "membarrier",
        "exit",
        "exit_group",
        "tgkill",
        "prlimit64",
    ];
    policy.set(&computing, Now(Allow));
    policy.set(HOSTILE, Now(Kill));
    policy.set(&["clone3"], Now(Errno(errno::NOSYS)));
    policy.set(
        &["clone"],
        Switch { arg: 0, mask: THREAD, cases: &[(THREAD, Now(Allow))], otherwise: EPERM },
    );
    // Memory of its own, never executable.
    policy.set(&["mmap"], Switch { arg: 2, mask: EXECUTABLE, cases: PRIVATE, otherwise: EPERM });
    policy.set(
        &["mprotect"],
        Switch { arg: 2, mask: EXECUTABLE, cases: &[(0, Now(Allow))], otherwise: EPERM },
    );
    // Names of threads and mappings.
    policy.set(
        &["prctl"],
        Switch {
            arg: 0,
            mask: u32::MAX,
            cases: &[(15, Now(Allow)), (0x5356_4d41, Now(Allow))],
            otherwise: EPERM,
        },
    );
    policy
}

/// The filter of the guest, which every call inherits beneath its own. It
/// allows what the guest needs to confine a call, and still nothing that opens
/// the kernel's wider doors.
pub fn guest() -> Policy {
    let mut policy = user();
    policy.set(
        &[
            "clone3",
            "capset",
            "seccomp",
            "prctl",
            "kill",
            "tkill",
            "tgkill",
            "pidfd_send_signal",
            "fcntl",
        ],
        Now(Allow),
    );
    // TIOCGPTPEER opens the other end of a terminal.
    policy.set(&["ioctl"], NO_TYPING);
    policy
}

/// Everything but what types into terminals.
const NO_TYPING: Rule = Switch {
    arg: 1,
    mask: u32::MAX,
    cases: &[(0x5412, Now(EPERM)), (0x541c, Now(EPERM))],
    otherwise: Allow,
};

/// The filter of a zygote, which every interpreter forked from it inherits
/// beneath its own. It may enter namespaces, which takes being their owner.
pub fn zygote() -> Policy {
    const JOIN_SESSION_KEYRING: u32 = 1;
    let mut policy = guest();
    policy.set(&["setns"], Now(Allow));
    policy.set(
        &["keyctl"],
        Switch {
            arg: 0,
            mask: u32::MAX,
            cases: &[(JOIN_SESSION_KEYRING, Now(Allow))],
            otherwise: EPERM,
        },
    );
    policy
}

/// The filter of a machine monitor: what its event loop, its threads and its
/// files need. Its guest may have taken it over, so whatever leads from there
/// to the host's kernel ends it.
pub fn monitor() -> Policy {
    let mut policy = user();
    policy.set(UNTHINKABLE, Now(Kill));
    // It adds a filter of its own to its threads, which can only allow less.
    policy.set(&["seccomp"], Now(Allow));
    // KVM is driven by these; other devices Landlock keeps away.
    policy.set(&["ioctl"], NO_TYPING);
    policy.set(NOT_A_MONITORS, Now(EPERM));
    policy
}

/// What no monitor does. A taken one that tries is gone.
const UNTHINKABLE: &[&str] = &[
    "ptrace",
    "process_vm_readv",
    "process_vm_writev",
    "mount",
    "umount2",
    "move_mount",
    "open_tree",
    "fsopen",
    "fsmount",
    "fsconfig",
    "fspick",
    "mount_setattr",
    "pivot_root",
    "chroot",
    "unshare",
    "setns",
    "bpf",
    "perf_event_open",
    "userfaultfd",
    "keyctl",
    "add_key",
    "request_key",
    "capset",
    "iopl",
    "ioperm",
    "kcmp",
    "pidfd_getfd",
    "open_by_handle_at",
    "name_to_handle_at",
    "acct",
    "quotactl",
    "settimeofday",
    "clock_settime",
    "adjtimex",
    "clock_adjtime",
    "sethostname",
    "setdomainname",
    "syslog",
    "vhangup",
    "nfsservctl",
    "lookup_dcookie",
    "personality",
];

/// What programs of a sandbox may do and a monitor need not.
const NOT_A_MONITORS: &[&str] = &[
    "fork",
    "vfork",
    "socket",
    "connect",
    "accept",
    "accept4",
    "bind",
    "listen",
    "setuid",
    "setgid",
    "setreuid",
    "setregid",
    "setresuid",
    "setresgid",
    "setfsuid",
    "setfsgid",
    "setgroups",
    "setsid",
    "chmod",
    "fchmod",
    "fchmodat",
    "chown",
    "fchown",
    "lchown",
    "fchownat",
    "link",
    "linkat",
    "symlink",
    "symlinkat",
    "mknod",
    "mknodat",
    "rename",
    "renameat",
    "renameat2",
    "shmget",
    "shmat",
    "shmctl",
    "semget",
    "semop",
    "semctl",
    "msgget",
    "msgsnd",
    "msgrcv",
    "msgctl",
    "mq_open",
    "setxattr",
    "lsetxattr",
    "fsetxattr",
    "inotify_init1",
    "landlock_restrict_self",
];
