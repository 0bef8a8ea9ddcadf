//! A sandbox's way out: a gateway that listens inside, and an environment by
//! which programs find it unasked.
//!
//! Nothing of this exists until somebody connects the sandbox.

use std::collections::HashSet;
use std::sync::{Arc, PoisonError};

use belljar_domain::User;
use belljar_domain::network::Policy;
use belljar_guest_proto::{CHUNK, Reply, Request, ToGuest};
use belljar_peer_proto::gateway::{GitRemote, Grant, Minted, Opened, PORT, Session};

use crate::files::FileError;
use crate::gateway::{Attached, Gateway, GatewayError};
use crate::link::{Link, LinkError};
use crate::relay::Relay;
use crate::sandbox::Sandbox;

/// How code gets out.
#[derive(Debug)]
pub(crate) struct Way {
    /// Whether the gateway's authority is trusted inside.
    pub(crate) trusts: bool,
    /// Who passes connections on, where the gateway cannot listen inside.
    pub(crate) relay: Option<Arc<Relay>>,
    /// The path of the operation that takes OpenTelemetry, if the sandbox has one.
    pub(crate) otlp: Option<String>,
    /// The git servers that its operations stand for.
    pub(crate) git: Vec<GitRemote>,
}

/// The authorities that programs inside trust: the template's, and the
/// sandbox's own. Its directory is root's, so the code cannot change it.
const BUNDLE: &str = "/etc/belljar/authorities.pem";

/// What Node.js loads first, since most versions look at no proxy by themselves.
const NODE_PROXY: (&str, &str) =
    ("/etc/belljar/proxy.cjs", include_str!("../../../runtimes/javascript/proxy.cjs"));

/// Where distributions keep theirs.
const BUNDLES: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// The longest of them that is taken.
const LONGEST_BUNDLE: u64 = 4 << 20;

/// Programs that look at one of these take the file as all that they trust, so
/// it holds the template's authorities too.
const TRUSTING: [&str; 8] = [
    "SSL_CERT_FILE",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "PIP_CERT",
    "NODE_EXTRA_CA_CERTS",
    "GIT_SSL_CAINFO",
    "CARGO_HTTP_CAINFO",
    "npm_config_cafile",
];

/// What scripts are run with, where a template has it.
const PYTHONS: [&str; 2] = ["/usr/local/bin/python3", "/usr/bin/python3"];

const PROXIES: [&str; 8] = [
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "npm_config_proxy",
    "npm_config_https_proxy",
];

/// Settings of exporters of OpenTelemetry: the gateway takes neither gRPC nor compressed bodies.
const OTLP: [(&str, &str); 2] =
    [("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf"), ("OTEL_EXPORTER_OTLP_COMPRESSION", "none")];

impl Way {
    pub(crate) async fn variables(&self, number: u32) -> Vec<(String, String)> {
        let port = match &self.relay {
            // Without one of its own, what it does is nobody's.
            Some(relay) => relay.port_of(number).await.unwrap_or(PORT),
            None => PORT,
        };
        let mut all = variables(port, self.trusts, self.otlp.as_deref());
        all.extend(git_variables(port, &self.git));
        all
    }

    /// The call has ended.
    pub(crate) fn end(&self, number: u32) {
        if let Some(relay) = &self.relay {
            relay.end(number);
        }
    }
}

fn variables(port: u16, trusts: bool, otlp: Option<&str>) -> Vec<(String, String)> {
    let proxy = format!("http://127.0.0.1:{port}");
    let own = "127.0.0.1,localhost,::1";
    let mut all: Vec<(&str, &str)> = PROXIES.iter().map(|name| (*name, &*proxy)).collect();
    // Node does not look at the rest without the third, where it does at all.
    all.extend([("NO_PROXY", own), ("no_proxy", own), ("NODE_USE_ENV_PROXY", "1")]);
    let node_options = format!("--require={}", NODE_PROXY.0);
    all.push(("BELLJAR_GATEWAY", &proxy));
    let collector = otlp.map(|path| format!("{proxy}{path}"));
    if let Some(collector) = &collector {
        all.push(("OTEL_EXPORTER_OTLP_ENDPOINT", collector));
        all.extend(OTLP);
    }
    // A distribution's Python refuses packages that are not its own, to protect
    // itself. Here it is thrown away with the sandbox.
    all.push(("PIP_BREAK_SYSTEM_PACKAGES", "1"));
    if trusts {
        all.extend(TRUSTING.iter().map(|name| (*name, BUNDLE)));
        // Node ends at once if the file is not there, so it goes with the bundle.
        all.push(("NODE_OPTIONS", &node_options));
    }
    all.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// Prints the sandbox's token for git, from the file of a run or from the environment. Git adds
/// what it wants as the last word.
const GIT_HELPER: &str = "!f() { test \"$1\" = get || exit 0; echo username=belljar; \
    echo \"password=${BELLJAR_TOKEN:-$(cat \"$BELLJAR_TOKEN_FILE\")}\"; }; f";

/// Has git ask the gateway in the place of the servers that operations stand for.
fn git_variables(port: u16, remotes: &[GitRemote]) -> Vec<(String, String)> {
    if remotes.is_empty() {
        return Vec::new();
    }
    let own = format!("http://127.0.0.1:{port}");
    let instead =
        |remote: &GitRemote| (format!("url.{own}{}.insteadOf", remote.path), remote.url.clone());
    let mut settings: Vec<_> = remotes.iter().map(instead).collect();
    settings.push((format!("credential.{own}.helper"), GIT_HELPER.to_owned()));
    let mut all = vec![
        ("GIT_CONFIG_COUNT".to_owned(), settings.len().to_string()),
        // No human is there to type a password.
        ("GIT_TERMINAL_PROMPT".to_owned(), "0".to_owned()),
    ];
    for (number, (key, value)) in settings.into_iter().enumerate() {
        all.push((format!("GIT_CONFIG_KEY_{number}"), key));
        all.push((format!("GIT_CONFIG_VALUE_{number}"), value));
    }
    all
}

impl Sandbox {
    /// Has the gateway serve this sandbox: whatever code inside asks for goes
    /// there, and nowhere else. Calls and contexts that start from now on find it
    /// in their environment, and so do cells.
    pub async fn connect_gateway(
        &self,
        gateway: &Gateway,
        mut session: Session,
    ) -> Result<Opened, GatewayError> {
        session.subject.sandbox = self.id().clone();
        self.ledger.watch();
        let (attached, opened) =
            gateway.attach(session, &self.machine, &self.link, &self.ledger).await?;
        *self.network() = Some(attached);
        self.make_user_site().await;
        Ok(opened)
    }

    /// Makes the directory into which pip installs for the user. Python searches it only if it
    /// exists when Python starts, and a program may install a package and import it at once.
    async fn make_user_site(&self) {
        for python in PYTHONS {
            let Ok(entry) = self.stat(User::User, python.as_bytes()).await else { continue };
            let end = entry.points_to.map_or(entry.path, |end| end.path);
            if let Some(directory) = user_site(&self.home(User::User), &end) {
                // A home that is not the user's gets no packages; nothing else needs it.
                let _ = self.make_dir(User::User, directory.as_bytes()).await;
            }
        }
    }

    /// Writes a file that programs inside look at, readable by all. It belongs to
    /// whose home it is in, and is root's elsewhere. One that says all of it
    /// already stays: its owner may have added to it.
    pub async fn tell(&self, path: &str, text: &str) -> Result<(), FileError> {
        if read(&self.link, path.as_bytes()).await.is_ok_and(|known| says(&known, text)) {
            return Ok(());
        }
        let is_users = std::path::Path::new(path).starts_with(self.home(User::User));
        let user = if is_users { User::User } else { User::Root };
        write(&self.link, user, path, 0o644, text.as_bytes()).await
    }

    /// What may be reached from now on; what may not any more is cut.
    pub async fn change_policy(&self, policy: Policy) -> Result<(), GatewayError> {
        self.gateway()?.change(self.id(), policy).await
    }

    /// Makes a token for operations of the gateway. It works on this sandbox's
    /// own listener alone.
    pub async fn mint(&self, grant: Grant) -> Result<Minted, GatewayError> {
        self.gateway()?.mint(self.id(), grant).await
    }

    /// Has every token of the sandbox that is alive live for so long from now.
    pub async fn renew(&self, seconds: u32) -> Result<(), GatewayError> {
        self.gateway()?.renew(self.id(), seconds).await
    }

    /// Ends every token of the sandbox.
    pub async fn revoke(&self) -> Result<(), GatewayError> {
        self.gateway()?.revoke(self.id()).await
    }

    /// Whether it has a way out.
    pub fn is_connected(&self) -> bool {
        self.network().is_some()
    }

    pub(crate) fn network(&self) -> std::sync::MutexGuard<'_, Option<Attached>> {
        self.network.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn gateway(&self) -> Result<Gateway, GatewayError> {
        self.network().as_ref().map(|attached| attached.gateway()).ok_or(GatewayError::NotConnected)
    }

    /// Ends the tokens of a sandbox that is about to stand still. What was said
    /// to the gateway before anything else is done before it.
    pub(crate) fn revoke_now(&self) {
        if let Some(attached) = &*self.network() {
            attached.gateway().revoke_later(self.id());
        }
    }

    pub(crate) fn disconnect(&self) {
        let attached = self.network().take();
        drop(attached);
        self.ledger.set_way(None);
    }
}

/// Where the Python at `python`, an executable without links, looks for the user's packages.
fn user_site(home: &str, python: &[u8]) -> Option<String> {
    let name = python.rsplit(|&byte| byte == b'/').next()?;
    let name = str::from_utf8(name).ok()?;
    let minor = name.strip_prefix("python3.")?;
    let is_number = !minor.is_empty() && minor.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| format!("{home}/.local/lib/{name}/site-packages"))
}

/// Has programs inside trust `authority` beside what the template trusts, and
/// puts in what else their environment names.
pub(crate) async fn trust(link: &Link, authority: &str) -> Result<(), FileError> {
    let mut bundle = existing(link).await;
    if !bundle.is_empty() && !bundle.ends_with(b"\n") {
        bundle.push(b'\n');
    }
    bundle.extend_from_slice(authority.as_bytes());
    write(link, User::Root, NODE_PROXY.0, 0o444, NODE_PROXY.1.as_bytes()).await?;
    write(link, User::Root, BUNDLE, 0o444, &bundle).await
}

/// The authorities that the template trusts, or else the host: without any, what
/// the gateway passes on unread could not be verified inside.
async fn existing(link: &Link) -> Vec<u8> {
    for path in BUNDLES {
        if let Ok(found) = read(link, path.as_bytes()).await {
            return found;
        }
    }
    let found = BUNDLES.iter().find_map(|path| std::fs::read(path).ok());
    found.filter(|found| found.len() as u64 <= LONGEST_BUNDLE).unwrap_or_default()
}

async fn read(link: &Link, path: &[u8]) -> Result<Vec<u8>, FileError> {
    let mut found = Vec::new();
    crate::files::download(link, User::Root, path, LONGEST_BUNDLE, &mut found).await?;
    Ok(found)
}

/// Whether every line of `text` is in a file.
fn says(file: &[u8], text: &str) -> bool {
    let known: HashSet<&[u8]> = file.split(|&byte| byte == b'\n').collect();
    text.lines().all(|line| line.is_empty() || known.contains(line.as_bytes()))
}

async fn write(
    link: &Link,
    user: User,
    path: &str,
    mode: u32,
    bytes: &[u8],
) -> Result<(), FileError> {
    let mut channel = link.open();
    let (user, path) = (user.id(), path.as_bytes().to_vec());
    let request = Request::Write { user, owner: user, path, mode, attributes: Vec::new() };
    channel.send(&ToGuest::Request(request), &[]).await.map_err(FileError::Link)?;
    channel.cancel_on_drop(true);
    for piece in bytes.chunks(CHUNK) {
        channel.send(&ToGuest::Data(piece), &[]).await.map_err(FileError::Link)?;
    }
    channel.send(&ToGuest::Eof, &[]).await.map_err(FileError::Link)?;
    let written = channel.reply().await.map_err(FileError::Link)??;
    channel.cancel_on_drop(false);
    match written {
        Reply::Done => Ok(()),
        _ => Err(FileError::Link(LinkError::Gone)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_added_to_a_file_does_not_have_it_told_again() {
        let told = "[a]\nb = 1\n\n[c]\nd = 2\n";
        assert!(says(told.as_bytes(), told));
        assert!(says(b"[net]\nretry = 7\n[a]\nb = 1\n[c]\nd = 2", told));
        assert!(!says(b"[a]\nb = 1\n\n[c]\nd = 3\n", told));
        assert!(!says(b"", told));
    }

    #[test]
    fn the_users_packages_are_those_of_one_version_of_python() {
        let of = |python: &str| user_site("/home/user", python.as_bytes());
        let found = of("/usr/bin/python3.13");
        assert_eq!(found.as_deref(), Some("/home/user/.local/lib/python3.13/site-packages"));
        for other in ["/usr/bin/python3", "/usr/bin/python3.", "/opt/python3.x", "/bin/busybox"] {
            assert_eq!(of(other), None, "{other}");
        }
    }

    #[test]
    fn only_what_has_an_authority_to_trust_names_the_bundle() {
        let with = variables(3128, true, None);
        assert!(with.contains(&("https_proxy".into(), "http://127.0.0.1:3128".into())));
        assert!(with.contains(&("SSL_CERT_FILE".into(), BUNDLE.into())));
        let without = variables(3128, false, None);
        assert!(without.iter().all(|(_, value)| value != BUNDLE));
        let loads = |all: &[(String, String)]| all.iter().any(|(name, _)| name == "NODE_OPTIONS");
        assert!(loads(&with) && !loads(&without));
    }

    #[test]
    fn git_finds_the_gateway_by_the_servers_own_name() {
        let remote = |name: &str, url: &str| {
            let path = format!("/operations/{name}/");
            GitRemote { path, url: url.to_owned() }
        };
        let remotes = [remote("code", "https://git.example/"), remote("b", "https://b.example/g/")];
        let all = git_variables(4000, &remotes);
        let has = |name: &str, value: &str| all.contains(&(name.to_owned(), value.to_owned()));
        assert!(has("GIT_CONFIG_COUNT", "3"));
        assert!(has("GIT_CONFIG_KEY_0", "url.http://127.0.0.1:4000/operations/code/.insteadOf"));
        assert!(has("GIT_CONFIG_VALUE_1", "https://b.example/g/"));
        assert!(has("GIT_CONFIG_KEY_2", "credential.http://127.0.0.1:4000.helper"));
        assert_eq!(git_variables(4000, &[]), []);
    }

    #[test]
    fn exporters_find_the_operation_that_takes_telemetry() {
        let with = variables(4000, false, Some("/operations/otel"));
        let endpoint = "http://127.0.0.1:4000/operations/otel".to_owned();
        assert!(with.contains(&("OTEL_EXPORTER_OTLP_ENDPOINT".into(), endpoint)));
        assert!(with.contains(&("OTEL_EXPORTER_OTLP_PROTOCOL".into(), "http/protobuf".into())));
        let without = variables(4000, false, None);
        assert!(without.iter().all(|(name, _)| !name.starts_with("OTEL_")));
    }
}
