//! Things on the host that no sandbox may touch.

use std::fs;
use std::io;
use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use crate::harness::launch::Planted;

const FILE_TEXT: &str = "canary: nothing in a sandbox may read or change this\n";

#[derive(Debug)]
pub(crate) struct Canaries {
    dir: TempDir,
    pub(crate) secrets: Planted,
    process: Child,
    tcp: TcpListener,
    unix: UnixListener,
    abstract_unix: UnixListener,
    abstract_name: String,
    datagram: UnixDatagram,
    abstract_datagram: UnixDatagram,
    file_before: String,
    settings_before: Vec<(&'static str, String)>,
}

/// Settings of the host that attacks try to change.
const SETTINGS: [&str; 6] = [
    "/proc/sys/kernel/core_pattern",
    "/proc/modules",
    "/proc/sys/user/max_user_namespaces",
    "/proc/sys/kernel/hostname",
    "/proc/sys/kernel/modprobe",
    "/proc/sys/kernel/sysrq",
];

impl Canaries {
    pub(crate) fn set_out(secrets: Planted) -> io::Result<Self> {
        // Open to everyone, so that no file mode does the jail's work.
        let dir = tempfile::Builder::new()
            .prefix("belljar-canary-")
            .permissions(fs::Permissions::from_mode(0o777))
            .tempdir()?;
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o777))?;
        let file = dir.path().join("file");
        fs::write(&file, FILE_TEXT)?;
        fs::set_permissions(&file, fs::Permissions::from_mode(0o666))?;
        secrets.write_to(&dir.path().join("secrets"))?;
        let unix = UnixListener::bind(dir.path().join("socket"))?;
        fs::set_permissions(dir.path().join("socket"), fs::Permissions::from_mode(0o777))?;
        let abstract_name = format!("belljar-canary-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&abstract_name)?;
        let abstract_unix = UnixListener::bind_addr(&address)?;
        let datagram = UnixDatagram::bind(dir.path().join("datagram"))?;
        fs::set_permissions(dir.path().join("datagram"), fs::Permissions::from_mode(0o777))?;
        let address = SocketAddr::from_abstract_name(datagram_name(&abstract_name))?;
        let abstract_datagram = UnixDatagram::bind_addr(&address)?;
        datagram.set_nonblocking(true)?;
        abstract_datagram.set_nonblocking(true)?;
        let tcp = TcpListener::bind("127.0.0.1:0")?;
        tcp.set_nonblocking(true)?;
        unix.set_nonblocking(true)?;
        abstract_unix.set_nonblocking(true)?;
        let process = Command::new("sleep")
            .arg("86400")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()?;
        let file_before = fingerprint(&file)?;
        let settings_before = settings();
        Ok(Self {
            dir,
            secrets,
            process,
            tcp,
            unix,
            abstract_unix,
            abstract_name,
            datagram,
            abstract_datagram,
            file_before,
            settings_before,
        })
    }

    /// A directory on the host that anyone may write to.
    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// A file on the host that anyone may write to.
    pub(crate) fn file(&self) -> PathBuf {
        self.dir.path().join("file")
    }

    /// A listening socket with a path on the host.
    pub(crate) fn socket(&self) -> PathBuf {
        self.dir.path().join("socket")
    }

    /// A listening socket with an abstract name in the host's network.
    pub(crate) fn abstract_name(&self) -> &str {
        &self.abstract_name
    }

    /// A socket of datagrams with a path on the host.
    pub(crate) fn datagram_socket(&self) -> PathBuf {
        self.dir.path().join("datagram")
    }

    /// A socket of datagrams with an abstract name in the host's network.
    pub(crate) fn abstract_datagram_name(&self) -> String {
        datagram_name(&self.abstract_name)
    }

    /// A port on the host's 127.0.0.1 that listens.
    pub(crate) fn port(&self) -> u16 {
        self.tcp.local_addr().map_or(0, |address| address.port())
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.id()
    }

    /// What was touched since the last time. Connections are taken off the
    /// listeners, so that each is told once.
    pub(crate) fn touched(&mut self) -> Vec<String> {
        let mut touched = Vec::new();
        match fingerprint(&self.file()) {
            Ok(now) if now == self.file_before => {}
            Ok(now) => {
                touched.push(format!("the canary file changed: {now}"));
                self.file_before = now;
            }
            Err(error) => touched.push(format!("the canary file cannot be read: {error}")),
        }
        let names = fs::read_dir(self.dir()).into_iter().flatten().flatten();
        for name in names.map(|entry| entry.file_name()) {
            let known = ["file", "secrets", "socket", "datagram"];
            let known = known.iter().any(|known| name == *known);
            // Names that acts of the harness itself use begin with "own-".
            if !known && !name.to_string_lossy().starts_with("own-") {
                touched.push(format!("the canary directory has a new entry {name:?}"));
                let _ = fs::remove_file(self.dir().join(name));
            }
        }
        if !matches!(self.process.try_wait(), Ok(None)) {
            touched.push("the canary process is gone".to_owned());
        }
        for (name, count) in [
            ("TCP", drain(|| self.tcp.accept().map(drop))),
            ("unix", drain(|| self.unix.accept().map(drop))),
            ("abstract unix", drain(|| self.abstract_unix.accept().map(drop))),
        ] {
            if count > 0 {
                touched.push(format!("the canary {name} listener got {count} connections"));
            }
        }
        for (name, socket) in
            [("datagram", &self.datagram), ("abstract datagram", &self.abstract_datagram)]
        {
            let count = drain(|| socket.recv(&mut [0; 64]).map(|_| ()));
            if count > 0 {
                touched.push(format!("the canary {name} socket got {count} messages"));
            }
        }
        let now = settings();
        for ((name, before), (_, after)) in self.settings_before.iter().zip(&now) {
            if before != after {
                touched.push(format!("{name} changed from {before:?} to {after:?}"));
            }
        }
        self.settings_before = now;
        touched
    }
}

impl Drop for Canaries {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn drain(mut take: impl FnMut() -> io::Result<()>) -> usize {
    std::iter::from_fn(|| take().ok()).count()
}

fn datagram_name(listener: &str) -> String {
    format!("{listener}-datagram")
}

/// Content, owner, mode and change time. The access time is left out: reading
/// it here would change it.
fn fingerprint(file: &Path) -> io::Result<String> {
    let metadata = fs::metadata(file)?;
    let text = fs::read_to_string(file).unwrap_or_else(|_| "not text".to_owned());
    let text = if text == FILE_TEXT { "" } else { &text };
    Ok(format!(
        "{text}{}:{} {:o} {}.{}",
        metadata.uid(),
        metadata.gid(),
        metadata.mode(),
        metadata.ctime(),
        metadata.ctime_nsec()
    ))
}

fn settings() -> Vec<(&'static str, String)> {
    let read = |path| (path, fs::read_to_string(path).unwrap_or_default());
    SETTINGS.map(read).map(|(path, text)| (path, without_counts(path, &text))).into()
}

/// Only the names of modules: their use counts change by themselves.
fn without_counts(path: &str, text: &str) -> String {
    if path == "/proc/modules" {
        let names = text.lines().filter_map(|line| line.split(' ').next());
        names.collect::<Vec<_>>().join(" ")
    } else {
        text.trim().to_owned()
    }
}
