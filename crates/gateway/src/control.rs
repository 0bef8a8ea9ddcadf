//! The gateway as a process of its own: a node drives it over a socket.
//!
//! It is this same executable, started again under another name, with the
//! socket as its descriptor 0. Its memory holds what no sandbox and no other
//! process may read: credentials, tokens' hashes, authorities' keys. When the
//! node goes away, however it goes, the socket ends and so does the process,
//! with every listener: sandboxes that are left then have no way out at all.

mod reload;
mod socket;

use std::ffi::OsString;
use std::io;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;

use belljar_peer_proto::gateway::{FromGateway, LEASED_BUDGETS, PROCESS, ToGateway, encode};
use belljar_sys::{fd, packet, process};
use tokio::sync::mpsc;

use crate::config::{Config, InvalidConfig};
use crate::lanes::Lanes;
use crate::moving::Move;
use crate::shared::{Gateway, OpenError, StartError};
use socket::Socket;

/// Why the gateway ended before its node did.
#[derive(Debug, thiserror::Error)]
enum RunError {
    #[error("cannot use the socket to the node")]
    Socket(#[source] io::Error),
    #[error("cannot start threads")]
    Threads(#[source] io::Error),
    #[error("cannot get random numbers")]
    Epoch(#[source] io::Error),
    #[error(transparent)]
    Config(#[from] InvalidConfig),
    #[error(transparent)]
    Start(#[from] StartError),
}

/// Becomes the gateway if this process was started as one. Every executable
/// that uses a node calls this first in `main`.
pub fn hook() {
    let mut arguments = std::env::args_os();
    if arguments.next().is_some_and(|name| name == PROCESS) {
        let socket = fd::inherited(0);
        let node = socket.as_ref().ok().and_then(|socket| socket.try_clone().ok());
        let ran = socket.map_err(RunError::Socket).and_then(|socket| {
            let paths = [arguments.next(), arguments.next(), arguments.next()];
            let is_leasing = arguments.next().is_some_and(|word| word == LEASED_BUDGETS);
            run(socket, paths, is_leasing)
        });
        let status = match ran {
            Ok(()) => 0,
            Err(error) => {
                report(node, &error);
                1
            }
        };
        process::exit_now(status);
    }
}

/// Tells the node why, with the causes; standard error, if nobody hears it.
#[expect(clippy::print_stderr, reason = "the process ends with it")]
fn report(node: Option<OwnedFd>, error: &RunError) {
    let mut why = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        why = format!("{why}: {cause}");
        source = cause.source();
    }
    let failed = encode(&FromGateway::Failed { why: why.clone() });
    let told = match (node, failed) {
        (Some(node), Ok(failed)) => packet::send(&node, &failed, &[]).is_ok(),
        _ => false,
    };
    if !told {
        eprintln!("gateway: {why}");
    }
}

/// `paths`: of the settings, of its data, and of the charge log.
fn run(socket: OwnedFd, paths: [Option<OsString>; 3], is_leasing: bool) -> Result<(), RunError> {
    harden();
    let named = |path: Option<OsString>| path.filter(|path| !path.is_empty()).map(PathBuf::from);
    let [path, data, charges] = paths.map(named);
    let mut config = path.as_deref().map(Config::read).transpose()?.unwrap_or_default();
    if let Some(data) = &data {
        config.keep_below(data);
    }
    let lanes = Lanes::start().map_err(RunError::Threads)?;
    let leases = is_leasing.then(epoch).transpose().map_err(RunError::Epoch)?;
    let charges = charges.map(|root| Ok((root, epoch()?)));
    let charges = charges.transpose().map_err(RunError::Epoch)?;
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(RunError::Threads)?
        .block_on(serve(socket, config, (lanes, leases, charges), path, data))
}

/// A word that no other process of a gateway has.
fn epoch() -> io::Result<String> {
    let mut bits = [0; 16];
    rustix::rand::getrandom(&mut bits, rustix::rand::GetRandomFlags::empty())?;
    Ok(bits.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Secrets are in here: no core is written and nobody else's process looks in.
/// Every connection is a descriptor or two, so as many as may be.
fn harden() {
    let _ = rustix::process::setsid();
    let _ = process::set_dumpable(false);
    let _ = process::limit(process::resource::CORE, 0);
    let mut limits = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    limits.current = limits.maximum;
    let _ = rustix::process::setrlimit(rustix::process::Resource::Nofile, limits);
}

async fn serve(
    socket: OwnedFd,
    config: Config,
    (lanes, leases, charges): (Lanes, Option<String>, Option<(PathBuf, String)>),
    path: Option<PathBuf>,
    data: Option<PathBuf>,
) -> Result<(), RunError> {
    let (gateway, mut events) = Gateway::with(config, lanes, leases, charges)?;
    let socket = Arc::new(Socket::new(socket).map_err(RunError::Socket)?);
    let (answers, mut answered) = mpsc::channel::<FromGateway>(256);
    if let Some(path) = path {
        tokio::spawn(reload::watch(gateway.clone(), path, data));
    }
    let sender = Arc::clone(&socket);
    tokio::spawn(async move {
        let _ = sender.send(&FromGateway::Ready).await;
        loop {
            // Answers first: the node waits for them.
            let message = tokio::select! {
                biased;
                Some(message) = answered.recv() => message,
                Some(message) = events.recv() => message,
                else => return,
            };
            if sender.send(&message).await.is_err() {
                // Receiving will end as well, and the process with it.
                return;
            }
        }
    });
    loop {
        match socket.receive().await {
            Ok(Some((message, descriptors))) => {
                if let Some(answer) = obey(&gateway, message, descriptors)
                    && answers.send(answer).await.is_err()
                {
                    return Ok(());
                }
            }
            Ok(None) => return Ok(()),
            Err(error) => return Err(RunError::Socket(error)),
        }
    }
}

/// Carries out one request. None of them waits for anything.
fn obey(gateway: &Gateway, message: ToGateway, descriptors: Vec<OwnedFd>) -> Option<FromGateway> {
    let refused = |sequence, error: OpenError| {
        let mut why = error.to_string();
        if let Some(source) = std::error::Error::source(&error) {
            why = format!("{why}: {source}");
        }
        FromGateway::Refused { sequence, why }
    };
    let done = |sequence, result: Result<(), OpenError>| match result {
        Ok(()) => FromGateway::Done { sequence },
        Err(error) => refused(sequence, error),
    };
    let mut descriptors = descriptors.into_iter();
    Some(match message {
        ToGateway::Open { sequence, session } => {
            let listener = descriptors.next().map(TcpListener::from);
            match gateway.open(*session, listener, descriptors.next()) {
                Ok(opened) => FromGateway::Opened { sequence, opened },
                Err(error) => refused(sequence, error),
            }
        }
        ToGateway::Connection { sandbox, belongs } => {
            // A sandbox that was closed meanwhile needs no answer.
            let _ = gateway.connect(&sandbox, descriptors.next()?, belongs);
            return None;
        }
        ToGateway::Change { sequence, sandbox, policy } => {
            done(sequence, gateway.change(&sandbox, *policy))
        }
        ToGateway::Mint { sequence, sandbox, grant } => match gateway.mint(&sandbox, grant) {
            Ok(minted) => FromGateway::Minted { sequence, minted },
            Err(error) => refused(sequence, error),
        },
        ToGateway::Revoke { sequence, sandbox } => done(sequence, gateway.revoke(&sandbox)),
        ToGateway::Renew { sequence, sandbox, seconds } => {
            done(sequence, gateway.renew(&sandbox, seconds))
        }
        ToGateway::Close { sequence, sandbox } => done(sequence, gateway.close(&sandbox)),
        ToGateway::SaveCassette { sequence, tenant, cassette } => {
            let file = descriptors.next()?;
            gateway.move_cassette(sequence, tenant, Move::Save { cassette, file });
            return None;
        }
        ToGateway::LoadCassette { sequence, tenant, cassette } => {
            let file = descriptors.next()?;
            gateway.move_cassette(sequence, tenant, Move::Load { cassette, file });
            return None;
        }
        ToGateway::RemoveCassette { sequence, tenant, cassette } => {
            gateway.move_cassette(sequence, tenant, Move::Remove { cassette });
            return None;
        }
        ToGateway::Finish { sequence } => {
            gateway.finish(sequence);
            return None;
        }
        ToGateway::Belongs { question, belongs } => {
            gateway.answer(question, belongs);
            return None;
        }
        ToGateway::Approval { question, answer } => {
            gateway.answer_approval(question, answer);
            return None;
        }
        ToGateway::Budget { question, answer } => {
            gateway.answer_budget(question, answer);
            return None;
        }
        ToGateway::Replay => {
            gateway.replay();
            return None;
        }
        ToGateway::Charged { ids } => {
            gateway.charged(&ids);
            return None;
        }
    })
}
