//! The messages.

use serde::{Deserialize, Serialize};

use crate::MAX_PATH;
use crate::frame::{FrameError, Header, encode};

/// How calls are confined: sent once, before the first call.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Profile {
    /// A classic BPF program, 8 bytes an instruction; empty: no filter.
    pub seccomp: Vec<u8>,
    /// Resource number and value, soft and hard alike.
    pub rlimits: Vec<(u32, u64)>,
    /// The Landlock ABI with which calls set themselves apart from the guest,
    /// where neither a user id nor a pid namespace does; 0: they need not.
    pub apart_abi: u32,
    /// Whether calls and file operations change to the user asked for.
    pub switch_user: bool,
    /// Capabilities of commands and file operations of root, by bit. Those that an earlier
    /// profile did not have are gone for good.
    pub root_capabilities: u64,
    /// Check that a call is confined as the profile says, before its exec.
    pub self_check: bool,
    /// Where the host's kernel cannot see single processes, the guest makes the
    /// group of each call itself, and tells what it counts.
    pub groups: Option<InnerGroups>,
}

/// Groups that the guest keeps, with what all calls may use together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct InnerGroups {
    pub pids: u32,
    pub memory_bytes: u64,
}

/// What the host sends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToGuest<'a> {
    Configure(Profile),
    Request(Request),
    /// Input of a call, or content of a file that is written.
    Data(&'a [u8]),
    /// No more data on this channel.
    Eof,
    /// The guest may send this many bytes more on this channel.
    Credit(u32),
    /// The request on this channel is of no more interest.
    Cancel,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Request {
    Spawn(Spawn),
    /// Signals every process of the call on channel `call`.
    Signal {
        call: u32,
        signal: i32,
    },
    Resize {
        call: u32,
        size: PtySize,
    },
    Stat {
        user: u32,
        path: Vec<u8>,
        /// Which extended attributes to tell: those whose names begin so, and
        /// `user.` they must; `None`: none.
        attributes: Option<Vec<u8>>,
    },
    List {
        user: u32,
        path: Vec<u8>,
        depth: u32,
        limit: u32,
        /// As for `Stat`.
        attributes: Option<Vec<u8>>,
    },
    /// Makes the directories above it as well.
    MakeDir {
        user: u32,
        /// The owner of directories that are made. Another than `user` takes root's capabilities.
        owner: u32,
        path: Vec<u8>,
        /// Refuses one that is there already.
        new: bool,
    },
    Rename {
        user: u32,
        from: Vec<u8>,
        to: Vec<u8>,
    },
    Remove {
        user: u32,
        path: Vec<u8>,
    },
    Read {
        user: u32,
        path: Vec<u8>,
    },
    /// Followed by data frames and an end on the same channel. The file appears
    /// whole, under its name, only at the end.
    Write {
        user: u32,
        /// The owner of the file, and of directories that are made for it, as for `MakeDir`.
        owner: u32,
        path: Vec<u8>,
        mode: u32,
        /// Extended attributes of the new file, all of them `user.`.
        attributes: Vec<Attribute>,
    },
    Watch {
        user: u32,
        path: Vec<u8>,
        recursive: bool,
    },
    /// Which files below these paths changed since the guest started.
    Changed {
        user: u32,
        paths: Vec<Vec<u8>>,
        limit: u32,
    },
    /// As `Spawn`, with a stream at descriptor 3: data frames of the channel,
    /// in both directions, are what passes over it.
    Context(Spawn),
    /// Takes over an interpreter that was forked into the sandbox. Its stream,
    /// standard output and standard error travel with this request.
    Adopt {
        /// As the sandbox counts.
        pid: u32,
    },
    /// Connects to a TCP port on the sandbox's loopback. Once that is answered,
    /// data frames of the channel, in both directions, are what passes over the
    /// connection; an end closes one direction. A failure that is told later
    /// means that the connection broke.
    Dial {
        port: u16,
    },
    /// Hold still to be put on disk: everything that was to be sent is sent
    /// before the answer, calls stand still where the kernel can do that, and
    /// nothing is sent after it until `Awaken`.
    Suspend,
    /// The first word after a restore, or to one that held still.
    Awaken(Awaken),
    /// Listens on the sandbox's loopback until the channel is cancelled.
    Listen {
        /// 0: whichever is free.
        port: u16,
    },
    /// Waits for a connection to the listener of another channel, however long
    /// that takes. Once that is answered, it is as after `Dial`.
    Accept {
        listener: u32,
    },
}

/// What a sandbox that was put on disk learns when it comes back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Awaken {
    /// Mixed into the kernel's randomness before anything else runs: copies of
    /// one memory must not agree on what nobody should be able to guess.
    pub entropy: Vec<u8>,
    /// The time of day.
    pub seconds: i64,
    pub nanos: u32,
    /// After a restore: the channels that go on, with windows that begin anew.
    /// What belongs to another channel runs on and nobody hears of it. `None`:
    /// the stream is the same as before, and everything goes on as it was.
    pub keep: Option<Vec<u32>>,
    /// How calls are confined from now on.
    pub profile: Profile,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spawn {
    /// Program and arguments; a program without a slash is looked up in the
    /// `PATH` of `env`.
    pub argv: Vec<Vec<u8>>,
    pub env: Vec<(Vec<u8>, Vec<u8>)>,
    pub cwd: Vec<u8>,
    pub user: u32,
    pub stdin: Stdin,
    pub pty: Option<PtySize>,
    /// Descriptors that travel with this request: first the v2 cgroup
    /// directory if `into_cgroup`, then `tasks` files of v1 hierarchies.
    pub descriptors: u8,
    pub into_cgroup: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stdin {
    Empty,
    Stream,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PtySize {
    pub rows: u16,
    pub cols: u16,
}

/// What the guest sends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FromGuest<'a> {
    Hello(Hello),
    Reply(Result<Reply, Failure>),
    Stdout(&'a [u8]),
    Stderr(&'a [u8]),
    /// Content of a file that is read.
    Data(&'a [u8]),
    /// The stream of this channel is complete: a file's content, or both
    /// output streams of a call.
    Eof,
    Exited(Exit),
    Changed(WatchEvent),
    Credit(u32),
    /// What the guest's own group of a call has counted so far; told now and
    /// then while it changes.
    Counters(Counters),
}

/// What a call has used, as the sandbox's own kernel counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    pub cpu_micros: u64,
    pub peak_memory_bytes: Option<u64>,
    /// Processes that the kernel killed because memory ran out.
    pub oom_kills: u64,
    /// How often a process could not be made because of the limit.
    pub refused_processes: u64,
    /// The writable layer, where the host cannot look.
    pub disk: Option<DiskCount>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskCount {
    pub used_bytes: u64,
    pub total_bytes: u64,
    pub is_full: bool,
}

/// The first message of a guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    pub generation: u16,
    /// What the guest found out about itself before it spoke.
    pub pid: u32,
    pub uid: u32,
    pub capabilities: u64,
    pub no_new_privs: bool,
    pub seccomp: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reply {
    Done,
    /// A call started; the pid is the sandbox's own.
    Started {
        pid: u32,
    },
    Entry(Entry),
    /// `complete` is false when the limit cut the list.
    Entries {
        entries: Vec<Entry>,
        complete: bool,
    },
    /// The file that follows as data is this long.
    Size(u64),
    Changed(Changed),
    /// The guest that was restored, as it would have said hello.
    Awake(Hello),
    Listening {
        port: u16,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Changed {
    pub entries: Vec<Entry>,
    pub complete: bool,
}

/// Why a request failed: what was attempted, and the kernel's answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    pub doing: String,
    pub errno: i32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exit {
    pub code: Option<i32>,
    pub signal: Option<i32>,
    pub cpu_micros: u64,
    pub max_rss_bytes: u64,
    /// The last count, of a call in a group of the guest's own.
    pub counters: Option<Counters>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    pub path: Vec<u8>,
    pub kind: EntryKind,
    pub size: u64,
    /// What it takes on disk, holes not counted.
    pub allocated: u64,
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    pub modified_seconds: i64,
    pub modified_nanos: u32,
    /// Where a symbolic link points, as it is written there.
    pub target: Option<Vec<u8>>,
    /// What is found when a symbolic link is followed to its end, if anything.
    pub points_to: Option<PointsTo>,
    /// Those that were asked for, in order of their names.
    pub attributes: Vec<Attribute>,
}

/// What is at the end of a symbolic link.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PointsTo {
    /// Without any link on the way.
    pub path: Vec<u8>,
    pub kind: EntryKind,
    pub mode: u32,
}

/// Name and value of an extended attribute.
pub type Attribute = (Vec<u8>, Vec<u8>);

/// Attributes that one file may be given, or that are told of it.
pub const MOST_ATTRIBUTES: usize = 64;

/// Bytes of names and values that those may have together.
pub const ATTRIBUTE_BYTES: usize = 32 << 10;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum EntryKind {
    File,
    Directory,
    Symlink,
    Fifo,
    Socket,
    Device,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WatchEvent {
    pub kind: WatchKind,
    pub path: Vec<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum WatchKind {
    Created,
    Written,
    Removed,
    Renamed,
    Attributes,
    /// Events were lost; look again.
    Overflow,
}

/// Kind numbers. Never reused for another meaning.
mod kind {
    pub(super) const CONFIGURE: u8 = 0x01;
    pub(super) const REQUEST: u8 = 0x02;
    pub(super) const TO_DATA: u8 = 0x03;
    pub(super) const TO_EOF: u8 = 0x04;
    pub(super) const TO_CREDIT: u8 = 0x05;
    pub(super) const CANCEL: u8 = 0x06;
    pub(super) const HELLO: u8 = 0x81;
    pub(super) const REPLY: u8 = 0x82;
    pub(super) const STDOUT: u8 = 0x83;
    pub(super) const STDERR: u8 = 0x84;
    pub(super) const FROM_DATA: u8 = 0x85;
    pub(super) const FROM_EOF: u8 = 0x86;
    pub(super) const EXITED: u8 = 0x87;
    pub(super) const CHANGED: u8 = 0x88;
    pub(super) const FROM_CREDIT: u8 = 0x89;
    pub(super) const COUNTERS: u8 = 0x8a;
}

/// Reads a whole body: what is left over is as wrong as what is missing.
fn read<'a, T: Deserialize<'a>>(kind: u8, body: &'a [u8]) -> Result<T, FrameError> {
    match postcard::take_from_bytes(body) {
        Ok((value, [])) => Ok(value),
        Ok(_) | Err(_) => Err(FrameError::BadBody(kind)),
    }
}

fn empty(kind: u8, body: &[u8]) -> Result<(), FrameError> {
    if body.is_empty() { Ok(()) } else { Err(FrameError::BadBody(kind)) }
}

fn write<T: Serialize>(out: &mut Vec<u8>, kind: u8, channel: u32, value: &T) {
    // Serialising to a growing buffer fails only for types that postcard cannot
    // express; the golden tests write every message.
    let body = postcard::to_allocvec(value).unwrap_or_default();
    encode(out, kind, channel, &body);
}

impl<'a> ToGuest<'a> {
    pub fn decode(header: Header, body: &'a [u8]) -> Result<Self, FrameError> {
        let kind = header.kind;
        Ok(match kind {
            kind::CONFIGURE => Self::Configure(read(kind, body)?),
            kind::REQUEST => Self::Request(read(kind, body)?),
            kind::TO_DATA => Self::Data(body),
            kind::TO_EOF => empty(kind, body).map(|()| Self::Eof)?,
            kind::TO_CREDIT => Self::Credit(read(kind, body)?),
            kind::CANCEL => empty(kind, body).map(|()| Self::Cancel)?,
            _ => return Err(FrameError::UnknownKind(kind)),
        })
    }

    pub fn encode(&self, out: &mut Vec<u8>, channel: u32) {
        match self {
            Self::Configure(profile) => write(out, kind::CONFIGURE, channel, profile),
            Self::Request(request) => write(out, kind::REQUEST, channel, request),
            Self::Data(bytes) => encode(out, kind::TO_DATA, channel, bytes),
            Self::Eof => encode(out, kind::TO_EOF, channel, &[]),
            Self::Credit(bytes) => write(out, kind::TO_CREDIT, channel, bytes),
            Self::Cancel => encode(out, kind::CANCEL, channel, &[]),
        }
    }
}

impl<'a> FromGuest<'a> {
    pub fn decode(header: Header, body: &'a [u8]) -> Result<Self, FrameError> {
        let kind = header.kind;
        Ok(match kind {
            kind::HELLO => Self::Hello(read(kind, body)?),
            kind::REPLY => Self::Reply(read(kind, body)?),
            kind::STDOUT => Self::Stdout(body),
            kind::STDERR => Self::Stderr(body),
            kind::FROM_DATA => Self::Data(body),
            kind::FROM_EOF => empty(kind, body).map(|()| Self::Eof)?,
            kind::EXITED => Self::Exited(read(kind, body)?),
            kind::CHANGED => {
                let event: WatchEvent = read(kind, body)?;
                if event.path.len() > MAX_PATH {
                    return Err(FrameError::BadBody(kind));
                }
                Self::Changed(event)
            }
            kind::FROM_CREDIT => Self::Credit(read(kind, body)?),
            kind::COUNTERS => Self::Counters(read(kind, body)?),
            _ => return Err(FrameError::UnknownKind(kind)),
        })
    }

    pub fn encode(&self, out: &mut Vec<u8>, channel: u32) {
        match self {
            Self::Hello(hello) => write(out, kind::HELLO, channel, hello),
            Self::Reply(reply) => write(out, kind::REPLY, channel, reply),
            Self::Stdout(bytes) => encode(out, kind::STDOUT, channel, bytes),
            Self::Stderr(bytes) => encode(out, kind::STDERR, channel, bytes),
            Self::Data(bytes) => encode(out, kind::FROM_DATA, channel, bytes),
            Self::Eof => encode(out, kind::FROM_EOF, channel, &[]),
            Self::Exited(exit) => write(out, kind::EXITED, channel, exit),
            Self::Changed(event) => write(out, kind::CHANGED, channel, event),
            Self::Credit(bytes) => write(out, kind::FROM_CREDIT, channel, bytes),
            Self::Counters(counters) => write(out, kind::COUNTERS, channel, counters),
        }
    }
}
