//! Starts this program again with planted secrets: in its environment, its
//! arguments, a file of its own and its session keyring.
//!
//! A process cannot soundly change its own environment once it has threads, and
//! a session keyring is best joined before anything else happens.

use std::fs;
use std::io::Read as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use crate::harness::programs::Programs;

const PROVIDER_KEY: &str = "CANARY_PROVIDER_KEY";
const TENANT_TOKEN: &str = "CANARY_TENANT_TOKEN";
/// The description of the key in the session keyring.
pub(crate) const KEY_NAME: &str = "belljar-attack-canary";

/// Secrets that must appear in no sandbox.
#[derive(Debug, Clone)]
pub(crate) struct Planted {
    pub(crate) provider_key: String,
    pub(crate) tenant_token: String,
}

impl Planted {
    /// The secrets, if this process was started with them.
    pub(crate) fn find() -> Option<Self> {
        let provider_key = std::env::var(PROVIDER_KEY).ok()?;
        let tenant_token = std::env::var(TENANT_TOKEN).ok()?;
        Some(Self { provider_key, tenant_token })
    }

    pub(crate) fn all(&self) -> [&str; 2] {
        [&self.provider_key, &self.tenant_token]
    }

    /// Keeps them in a file that only its owner can read, too.
    pub(crate) fn write_to(&self, file: &std::path::Path) -> std::io::Result<()> {
        use std::io::Write as _;
        let mut file =
            fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(file)?;
        writeln!(file, "{}\n{}", self.provider_key, self.tenant_token)
    }
}

/// Becomes this program again, with secrets. Only returns if that failed.
pub(crate) fn again_with_secrets(programs: &Programs) -> anyhow::Error {
    match try_again(programs) {
        Ok(error) => anyhow::Error::from(error).context("cannot start again with secrets"),
        Err(error) => error,
    }
}

fn try_again(programs: &Programs) -> anyhow::Result<std::io::Error> {
    let (provider_key, tenant_token) = (secret("sk-canary-")?, secret("tok-canary-")?);
    let error = Command::new(programs.path("host/launch.c")?)
        .arg(KEY_NAME)
        .arg(&provider_key)
        .arg(std::env::current_exe()?)
        .args(std::env::args_os().skip(1))
        .env(PROVIDER_KEY, provider_key)
        .env(TENANT_TOKEN, tenant_token)
        .exec();
    Ok(error)
}

fn secret(prefix: &str) -> std::io::Result<String> {
    let mut bits = [0u8; 12];
    fs::File::open("/dev/urandom")?.read_exact(&mut bits)?;
    let hex: String = bits.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(format!("{prefix}{hex}"))
}
