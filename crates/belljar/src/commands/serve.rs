//! `belljar serve`: sandboxes over HTTP.

mod tiers;

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context as _, bail};
use belljar_actions::{Actions, Keys};
use belljar_node::PoolSize;
use belljar_server::{Listener, Server, Settings, tls};
use tracing_subscriber::filter::LevelFilter;

use crate::cli::Serve;
use crate::config::Config;
use crate::output::{Hint as _, Printer, hinted};
use crate::session::Interrupt;

pub(crate) async fn run(options: &Serve, config: &Config, printer: &Printer) -> anyhow::Result<u8> {
    log(options.json_logs);
    let data = options.data.as_deref().unwrap_or(&config.data);
    std::fs::create_dir_all(data)
        .with_context(|| format!("cannot make `{}`", data.display()))
        .hint("choose a directory that you may write to with --data")?;
    let mut interrupt = Interrupt::new()?;
    // Before anything else is made: a port that is taken is the usual mistake.
    let listeners = listeners(options, data, printer)?;
    let keys = keys(options, data, printer)?;
    let settings = settings(options, config, data)?;
    let actions = Actions::start(settings, keys).await;
    let actions = actions.hint("`belljar doctor` says what this host can run")?;
    tiers::try_default(&actions, printer).await?;
    for listener in &listeners {
        if let Some(address) = listener.address() {
            printer.note(format_args!("listening on {}://{address}", listener.scheme()));
        }
    }
    let warming = tokio::spawn(warm_up(actions.clone(), *printer));
    let server = Server::new(actions, Settings { grace: options.grace, ..Settings::default() });
    let stopped = async {
        interrupt.wait().await;
        printer.note("stopping: requests may finish, then every sandbox ends");
    };
    let ended = server.run(listeners, stopped).await;
    warming.abort();
    ended.hint("start the server again; `GET /v1/ended` then says what was lost")?;
    Ok(0)
}

fn log(json: bool) {
    let builder = tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .with_max_level(LevelFilter::INFO);
    if json { builder.json().init() } else { builder.compact().init() }
}

fn settings(
    options: &Serve,
    config: &Config,
    data: &Path,
) -> anyhow::Result<belljar_actions::Config> {
    let mut settings = belljar_actions::Config::new(data.to_owned(), config.store.clone());
    settings.engine_state.clone_from(&config.state);
    settings.quota.sandboxes = options.max_sandboxes;
    settings.domain.clone_from(&options.domain);
    let most = settings.pool.most.max(options.pool);
    settings.pool = PoolSize { least: options.pool, most, ..settings.pool };
    settings.tiers = tiers::read(options)?;
    Ok(settings)
}

fn keys(options: &Serve, data: &Path, printer: &Printer) -> anyhow::Result<Keys> {
    if let Some(path) = &options.keys {
        return Keys::read(path)
            .hint("write one `KEY TENANT [floor=TIER]` a line, KEY like e2b_ and 40 hex digits");
    }
    let path = data.join("keys");
    let (keys, made) = Keys::read_or_make(&path)?;
    if let Some(made) = made {
        printer.note(format_args!(
            "made an API key, shown only now; `{}` has its hash:",
            path.display()
        ));
        printer.data(made.expose())?;
    }
    Ok(keys)
}

fn listeners(options: &Serve, data: &Path, printer: &Printer) -> anyhow::Result<Vec<Listener>> {
    let mut listeners = Vec::new();
    for &address in options.listen.iter().chain(&options.data_listen) {
        if !address.ip().is_loopback() {
            printer.note(format_args!(
                "warning: {address} can be reached from other machines, and is not encrypted"
            ));
        }
        let bound = Listener::bind(address, None);
        listeners.push(bound.hint("choose another port with --listen")?);
    }
    let Some(address) = options.tls_listen else { return Ok(listeners) };
    let files = tls::Files::below(&data.join("tls"));
    let (certificate, key) = match (&options.tls_cert, &options.tls_key) {
        (Some(certificate), Some(key)) => (certificate.as_path(), key.as_path()),
        _ if files.certificate.exists() => (files.certificate.as_path(), files.key.as_path()),
        _ => {
            let error = anyhow::anyhow!("there is no certificate to serve TLS with");
            bail!(hinted(
                error,
                "make one with `belljar tls init --domain NAME`, or give --tls-cert"
            ));
        }
    };
    let config: Arc<_> = tls::config(certificate, key)?;
    listeners.push(Listener::bind(address, Some(config)).hint("choose another port")?);
    Ok(listeners)
}

/// The first sandboxes need not wait for this; they only start slower.
async fn warm_up(actions: Actions, printer: Printer) {
    let begin = Instant::now();
    match actions.warm_up().await {
        0 => printer.note(
            "no warm template: every sandbox starts cold\n\
             hint: build one with `belljar template build code-interpreter`; sandboxes in \
             oci/crun and oci/runc always start cold",
        ),
        _ => printer.note(format_args!("ready: warm after {:.1} s", begin.elapsed().as_secs_f64())),
    }
}
