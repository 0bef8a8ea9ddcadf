//! One value of every message, named after its golden file.

use belljar_guest_proto::{
    Attribute, Awaken, Changed, Counters, DiskCount, Entry, EntryKind, Exit, Failure, FromGuest,
    GENERATION, Hello, InnerGroups, PointsTo, Profile, PtySize, Reply, Request, Spawn, Stdin,
    ToGuest, WatchEvent, WatchKind,
};

/// Where a message goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Message {
    To(ToGuest<'static>),
    From(FromGuest<'static>),
}

impl Message {
    pub(crate) fn encode(&self, out: &mut Vec<u8>, channel: u32) {
        match self {
            Self::To(message) => message.encode(out, channel),
            Self::From(message) => message.encode(out, channel),
        }
    }
}

pub(crate) fn profile() -> Profile {
    Profile {
        seccomp: vec![0x20, 0, 0, 0, 4, 0, 0, 0],
        rlimits: vec![(7, 1024), (4, 0), (1, u64::MAX)],
        apart_abi: 7,
        switch_user: true,
        root_capabilities: 0x04fb,
        self_check: true,
        groups: None,
    }
}

/// Of a guest that keeps the groups of its calls itself.
fn enclosed() -> Profile {
    let groups = InnerGroups { pids: 512, memory_bytes: 1 << 31 };
    Profile { groups: Some(groups), apart_abi: 0, ..profile() }
}

fn hello() -> Hello {
    Hello {
        generation: GENERATION,
        pid: 1,
        uid: 999,
        capabilities: 0xe0,
        no_new_privs: true,
        seccomp: true,
    }
}

fn counters() -> Counters {
    Counters {
        cpu_micros: 1_234_567,
        peak_memory_bytes: Some(1 << 33),
        oom_kills: 1,
        refused_processes: 300,
        disk: Some(DiskCount { used_bytes: 1 << 20, total_bytes: 1 << 40, is_full: true }),
    }
}

fn awaken() -> Awaken {
    Awaken {
        entropy: vec![0xa5; 64],
        seconds: -1,
        nanos: 999_999_999,
        keep: Some(vec![1, 300, u32::MAX]),
        profile: enclosed(),
    }
}

pub(crate) fn spawn() -> Spawn {
    Spawn {
        argv: vec![b"/bin/echo".to_vec(), b"".to_vec(), vec![0xff, 0xfe]],
        env: vec![(b"PATH".to_vec(), b"/bin".to_vec()), (b"EMPTY".to_vec(), Vec::new())],
        cwd: b"/home/user".to_vec(),
        user: 1000,
        stdin: Stdin::Stream,
        pty: Some(PtySize { rows: 24, cols: 80 }),
        descriptors: 3,
        into_cgroup: true,
    }
}

pub(crate) fn entry(kind: EntryKind) -> Entry {
    Entry {
        path: "/home/user/\u{e9}\n".as_bytes().to_vec(),
        kind,
        size: 1 << 40,
        allocated: 4096,
        mode: 0o755,
        uid: 1000,
        gid: 1000,
        modified_seconds: -1,
        modified_nanos: 999_999_999,
        target: (kind == EntryKind::Symlink).then(|| b"../target".to_vec()),
        points_to: (kind == EntryKind::Symlink).then(|| PointsTo {
            path: b"/home/target".to_vec(),
            kind: EntryKind::Directory,
            mode: 0o700,
        }),
        attributes: (kind == EntryKind::File).then(attributes).unwrap_or_default(),
    }
}

fn attributes() -> Vec<Attribute> {
    vec![(b"user.kind".to_vec(), b"\x00\xff".to_vec()), (b"user.none".to_vec(), Vec::new())]
}

fn requests() -> Vec<(&'static str, Request)> {
    let path = b"/home/user/file".to_vec();
    let all = Some(b"user.".to_vec());
    let plain =
        Spawn { stdin: Stdin::Empty, pty: None, descriptors: 0, into_cgroup: false, ..spawn() };
    let bare = Awaken {
        entropy: Vec::new(),
        seconds: 0,
        nanos: 0,
        keep: None,
        profile: Profile::default(),
    };
    vec![
        ("spawn", Request::Spawn(spawn())),
        ("spawn-plain", Request::Spawn(plain)),
        ("signal", Request::Signal { call: 7, signal: -15 }),
        ("resize", Request::Resize { call: 7, size: PtySize { rows: u16::MAX, cols: 1 } }),
        ("stat", Request::Stat { user: 1000, path: path.clone(), attributes: None }),
        ("stat-attributes", Request::Stat { user: 1, path: path.clone(), attributes: all.clone() }),
        (
            "list",
            Request::List { user: 0, path: path.clone(), depth: 3, limit: 10_000, attributes: all },
        ),
        ("make-dir", Request::MakeDir { user: 1000, owner: 1000, path: path.clone(), new: false }),
        ("make-dir-new", Request::MakeDir { user: 0, owner: 1000, path: path.clone(), new: true }),
        ("rename", Request::Rename { user: 1000, from: path.clone(), to: b"/tmp/x".to_vec() }),
        ("remove", Request::Remove { user: 1000, path: path.clone() }),
        ("read", Request::Read { user: 1000, path: path.clone() }),
        (
            "write",
            Request::Write {
                user: 0,
                owner: 1000,
                path: path.clone(),
                mode: 0o644,
                attributes: attributes(),
            },
        ),
        ("watch", Request::Watch { user: 1000, path: path.clone(), recursive: true }),
        ("changed", Request::Changed { user: 1000, paths: vec![path, b"/tmp".to_vec()], limit: 9 }),
        ("context", Request::Context(spawn())),
        ("adopt", Request::Adopt { pid: 2 }),
        ("dial", Request::Dial { port: 8080 }),
        ("suspend", Request::Suspend),
        ("awaken", Request::Awaken(awaken())),
        ("awaken-bare", Request::Awaken(bare)),
        ("awaken-nothing-kept", Request::Awaken(Awaken { keep: Some(Vec::new()), ..awaken() })),
        ("listen", Request::Listen { port: 3128 }),
        ("accept", Request::Accept { listener: 300 }),
    ]
}

fn replies() -> Vec<(&'static str, Result<Reply, Failure>)> {
    let kinds = [
        EntryKind::File,
        EntryKind::Directory,
        EntryKind::Symlink,
        EntryKind::Fifo,
        EntryKind::Socket,
        EntryKind::Device,
    ];
    let entries: Vec<Entry> = kinds.into_iter().map(entry).collect();
    let changed = Changed { entries: vec![entry(EntryKind::File)], complete: false };
    vec![
        ("done", Ok(Reply::Done)),
        ("started", Ok(Reply::Started { pid: 300 })),
        ("entry", Ok(Reply::Entry(entry(EntryKind::Symlink)))),
        ("entries", Ok(Reply::Entries { entries, complete: true })),
        ("entries-none", Ok(Reply::Entries { entries: Vec::new(), complete: false })),
        ("size", Ok(Reply::Size(u64::MAX))),
        ("changed", Ok(Reply::Changed(changed))),
        ("awake", Ok(Reply::Awake(hello()))),
        ("listening", Ok(Reply::Listening { port: 40_000 })),
        ("failure", Err(Failure { doing: "open the file".to_owned(), errno: 2 })),
    ]
}

/// All messages, each with the name of its golden file.
pub(crate) fn all() -> Vec<(String, Message)> {
    let to = |name: &str, message| (format!("to-{name}"), Message::To(message));
    let from = |name: &str, message| (format!("from-{name}"), Message::From(message));
    let counted = Exit { counters: Some(counters()), ..exit(None, Some(9)) };
    let mut all = vec![
        to("configure", ToGuest::Configure(profile())),
        to("configure-default", ToGuest::Configure(Profile::default())),
        to("configure-groups", ToGuest::Configure(enclosed())),
        to("data", ToGuest::Data(b"\x00input\xff")),
        to("data-empty", ToGuest::Data(b"")),
        to("eof", ToGuest::Eof),
        to("credit", ToGuest::Credit(1 << 20)),
        to("cancel", ToGuest::Cancel),
        from("hello", FromGuest::Hello(hello())),
        from("stdout", FromGuest::Stdout(b"\x00output\xff")),
        from("stderr", FromGuest::Stderr(b"error\n")),
        from("data", FromGuest::Data(b"content")),
        from("eof", FromGuest::Eof),
        from("credit", FromGuest::Credit(1)),
        from("exited", FromGuest::Exited(exit(Some(255), None))),
        from("exited-signal", FromGuest::Exited(exit(None, Some(9)))),
        from("exited-counters", FromGuest::Exited(counted)),
        from("counters", FromGuest::Counters(counters())),
        from("counters-none", FromGuest::Counters(Counters::default())),
    ];
    for (name, request) in requests() {
        all.push(to(&format!("request-{name}"), ToGuest::Request(request)));
    }
    for (name, reply) in replies() {
        all.push(from(&format!("reply-{name}"), FromGuest::Reply(reply)));
    }
    let kinds = [
        ("created", WatchKind::Created),
        ("written", WatchKind::Written),
        ("removed", WatchKind::Removed),
        ("renamed", WatchKind::Renamed),
        ("attributes", WatchKind::Attributes),
        ("overflow", WatchKind::Overflow),
    ];
    for (name, kind) in kinds {
        let event = WatchEvent { kind, path: b"/home/user/file".to_vec() };
        all.push(from(&format!("changed-{name}"), FromGuest::Changed(event)));
    }
    all
}

fn exit(code: Option<i32>, signal: Option<i32>) -> Exit {
    Exit { code, signal, cpu_micros: 1_234_567, max_rss_bytes: 1 << 33, counters: None }
}
