//! PostgreSQL and NATS, with their data below ours.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context as _;
use rustix::fs::{Mode, chmod, chown};
use rustix::process::{Gid, Signal, Uid};

use super::child::Child;
use super::home::Home;
use super::programs::{Programs, with_us};
use crate::output::{Hint as _, hinted};

/// PostgreSQL refuses to run as root; Debian's package makes this user.
const POSTGRES: &str = "postgres";
/// What the kernel allows for a socket's path, less its name (`/.s.PGSQL.5432`).
const LONGEST: usize = 90;

/// Makes an empty database, unless there is one.
pub(in crate::commands) async fn make_cluster(
    programs: &Programs,
    home: &Home,
) -> anyhow::Result<()> {
    let dir = home.path("postgres");
    private(&dir)?;
    if dir.join("data/PG_VERSION").exists() {
        return Ok(());
    }
    let mut command = as_postgres(&programs.initdb)?;
    // Whoever reaches the socket is let in; only its owner and root do.
    command.args(["--auth=trust", "--username=belljar", "--encoding=UTF8", "--locale=C"]);
    command.arg("--pgdata").arg(dir.join("data")).current_dir("/");
    let made = tokio::process::Command::from(command).output().await;
    let made = made.context("cannot run initdb")?;
    let said = String::from_utf8_lossy(&made.stderr).trim().replace('\n', "\n    ");
    if !made.status.success() {
        let error = anyhow::anyhow!(said).context("initdb failed");
        let hint = format!(
            "the user {POSTGRES} needs access to `{}`; if it has none, choose another --data",
            home.dir().display()
        );
        return Err(hinted(error, hint));
    }
    Ok(())
}

/// The server, and how it is reached: by a socket, so that it needs no port and no
/// password.
pub(in crate::commands) fn postgres(
    programs: &Programs,
    home: &Home,
) -> anyhow::Result<(Child, String)> {
    let dir = home.path("postgres");
    if dir.as_os_str().len() > LONGEST {
        let error = anyhow::anyhow!("`{}` is too long for a socket", dir.display());
        return Err(hinted(error, "choose a shorter directory with --data"));
    }
    let mut command = as_postgres(&programs.postgres)?;
    command.arg("-D").arg(dir.join("data")).arg("-k").arg(&dir).current_dir("/");
    command.args(["-c", "listen_addresses=", "-c", "max_connections=200"]);
    let host = encoded(&dir);
    let url = format!("postgres://belljar@localhost/postgres?host={host}");
    // Its quick way: sessions are cut off, and everything is written.
    let child = Child::start("postgres", command, home)?.ended_by(Signal::INT);
    Ok((child, url))
}

pub(in crate::commands) fn nats(
    programs: &Programs,
    home: &Home,
    address: SocketAddr,
) -> anyhow::Result<Child> {
    let mut command = with_us(&programs.nats, "TERM");
    command.args(["--addr", &address.ip().to_string(), "--port", &address.port().to_string()]);
    command.arg("--jetstream").arg("--store_dir").arg(home.path("nats"));
    Child::start("nats", command, home)
}

fn as_postgres(program: &Path) -> anyhow::Result<Command> {
    let mut command = Command::new("setpriv");
    if rustix::process::geteuid().is_root() {
        account()?;
        command.arg(format!("--reuid={POSTGRES}")).arg(format!("--regid={POSTGRES}"));
        command.arg("--init-groups");
    }
    command.args(["--pdeathsig=INT", "--"]).arg(program);
    Ok(command)
}

/// A directory for nobody but the server, and root.
fn private(dir: &PathBuf) -> anyhow::Result<()> {
    let cannot = || format!("cannot create `{}`", dir.display());
    std::fs::create_dir_all(dir).with_context(cannot)?;
    chmod(dir, Mode::RWXU).with_context(cannot)?;
    if rustix::process::geteuid().is_root() {
        let (user, group) = account()?;
        chown(dir, Some(user), Some(group)).with_context(cannot)?;
    }
    Ok(())
}

/// The numbers of the server's user.
fn account() -> anyhow::Result<(Uid, Gid)> {
    let users = std::fs::read_to_string("/etc/passwd").context("cannot read /etc/passwd")?;
    let found = users.lines().find_map(|line| {
        let mut fields = line.split(':');
        (fields.next() == Some(POSTGRES)).then_some(())?;
        let numbers: Vec<u32> = fields.skip(1).take(2).filter_map(|n| n.parse().ok()).collect();
        Some((Uid::from_raw(*numbers.first()?), Gid::from_raw(*numbers.get(1)?)))
    });
    let found = found.with_context(|| format!("the user {POSTGRES} does not exist"));
    found.hint(
        "PostgreSQL does not run as root. Debian's package creates the user; elsewhere: \
         useradd --system postgres",
    )
}

/// A path as a value in an address.
fn encoded(path: &Path) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/-._~".contains(&byte);
    let bytes = path.as_os_str().as_encoded_bytes().iter();
    bytes
        .map(
            |&byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") },
        )
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_paths_are_encoded() {
        assert_eq!(encoded(Path::new("/a b/c&d=é")), "/a%20b/c%26d%3D%C3%A9");
    }
}
