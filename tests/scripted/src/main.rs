//! The servers of this crate as programs, for suites in other languages, for
//! benchmarks, and for a look at what a client really sends.
//!
//! Each one prints a line of JSON with its address, and runs until a signal.

#![expect(clippy::print_stdout, reason = "the address is its product")]

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use belljar_scripted::{
    Authority, Bench, Hostile, Model, Names, Options, Script, Security, Usage, Zone,
};
use clap::{Args, Parser, Subcommand};
use tokio::signal::unix::{SignalKind, signal};

#[derive(Debug, Parser)]
#[command(name = "belljar-scripted", version, about)]
struct Cli {
    #[command(subcommand)]
    server: Server,
}

#[derive(Debug, Args)]
struct Listen {
    /// Where to listen; port 0 for any free one.
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// Serve HTTPS, and write the authority to trust to this file.
    #[arg(long, value_name = "FILE")]
    authority: Option<PathBuf>,
    /// Names in the certificate, beside those of loopback.
    #[arg(long = "name", value_name = "HOST")]
    names: Vec<String>,
    /// Note in the record which requests hold this text.
    #[arg(long = "watch", value_name = "TEXT")]
    watch: Vec<String>,
}

#[derive(Debug, Subcommand)]
enum Server {
    /// A model provider: Messages, Responses and Chat Completions.
    Model {
        #[command(flatten)]
        listen: Listen,
        /// What to answer, in TOML or JSON.
        #[arg(long, value_name = "FILE")]
        script: Option<PathBuf>,
        /// What requests must carry as `x-api-key` or bearer, read from this file.
        #[arg(long, value_name = "FILE")]
        credential_file: Option<PathBuf>,
        /// Keep bodies of requests, to be read at /__requests.
        #[arg(long)]
        keep_bodies: bool,
        /// Answer everything with so many events, prepared before; 0 for an
        /// answer in one piece.
        #[arg(long, value_name = "EVENTS")]
        bench: Option<usize>,
    },
    /// A server that breaks HTTP in the way that the path says.
    Hostile {
        #[command(flatten)]
        listen: Listen,
    },
    /// A name server.
    Dns {
        #[arg(long, default_value = "127.0.0.1:0")]
        listen: SocketAddr,
        /// Names and their sequences of answers, in JSON.
        #[arg(long, value_name = "FILE")]
        zone: PathBuf,
    },
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let running = start(Cli::parse().server).await?;
    println!("{}", serde_json::json!({ "address": running.address() }));
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    if let Running::Dns(names) = &running {
        println!("{}", serde_json::json!({ "queries": names.queries() }));
    }
    Ok(())
}

enum Running {
    Model(Model),
    Hostile(Hostile),
    Dns(Names),
}

impl Running {
    fn address(&self) -> SocketAddr {
        match self {
            Self::Model(model) => model.address(),
            Self::Hostile(hostile) => hostile.address(),
            Self::Dns(names) => names.address(),
        }
    }
}

async fn start(server: Server) -> anyhow::Result<Running> {
    match server {
        Server::Model { listen, script, credential_file, keep_bodies, bench } => {
            let script = script.as_deref().map_or_else(|| Ok(Script::default()), Script::load)?;
            let credential = credential_file.map(|path| read(&path)).transpose()?;
            let options = Options {
                address: listen.listen,
                security: listen.security()?,
                credential: credential.map(|text| text.trim().to_owned()),
                script,
                watch: listen.watch,
                keep_bodies,
                bench: bench.map(|events| Bench { events, usage: Usage::default() }),
            };
            Ok(Running::Model(Model::start(options).await?))
        }
        Server::Hostile { listen } => {
            let security = listen.security()?;
            Ok(Running::Hostile(Hostile::start(listen.listen, security, listen.watch).await?))
        }
        Server::Dns { listen, zone } => {
            let zone: Zone =
                serde_json::from_str(&read(&zone)?).context("the zone is not valid")?;
            Ok(Running::Dns(Names::start(listen, zone).await?))
        }
    }
}

impl Listen {
    fn security(&self) -> anyhow::Result<Security> {
        let Some(file) = &self.authority else { return Ok(Security::Plain) };
        let names: Vec<&str> = self.names.iter().map(String::as_str).collect();
        Authority::create(file)?.server(&names)
    }
}

fn read(path: &Path) -> anyhow::Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("cannot read `{}`", path.display()))
}
