//! `belljar serve`: sandboxes over HTTP.

mod file;
mod limits;
pub(super) mod network;
pub(super) mod tiers;

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context as _, bail};
use belljar_console::Console;
use belljar_domain::SecurityProfile;
use belljar_node::PoolSize;
use belljar_sandboxes::{Actions, Keys, RowQueue};
use belljar_server::{Listener, RowKeeper, Server, Settings, tls};
use belljar_telemetry::Role;

use super::{running, storing, webhooking, workflowing};
use crate::cli::{Hosting, Serve};
use crate::config::Config;
use crate::output::{Hint as _, Printer, hinted};
use crate::session::Interrupt;

pub(crate) async fn run(options: &Serve, config: &Config, printer: &Printer) -> anyhow::Result<u8> {
    let telemetry = options.hosting.observe.start(Role::Serve, None)?;
    let data = options.hosting.data.as_deref().unwrap_or(&config.data);
    std::fs::create_dir_all(data)
        .with_context(|| format!("cannot create `{}`", data.display()))
        .hint("choose a writable directory with --data")?;
    let mut interrupt = Interrupt::new()?;
    // Before anything else is made: a port that is taken is the usual mistake.
    let listeners = listeners(options, data, printer)?;
    let keys = keys(options, data, printer)?;
    let has_console = has_console(options)?;
    let mut settings = settings(&options.hosting, config, data)?;
    settings.quota.sandboxes = options.max_sandboxes;
    settings.domain.clone_from(&options.domain);
    settings.datasets = Some(running::of_tenants(data));
    let queue = RowQueue::new().context("cannot get random numbers")?;
    settings.rows = Some(queue.clone());
    let hooks = webhooking::open(data)?;
    settings.event_observer = webhooking::observer(&hooks);
    let actions = Actions::start(settings, keys).await;
    let actions = actions.hint("`belljar doctor` shows what this host can run")?;
    tiers::try_default(&actions, printer).await?;
    network::try_gateway(&actions).await?;
    for listener in &listeners {
        if let Some(address) = listener.address() {
            printer.note(format_args!("listening on {}://{address}", listener.scheme()));
        }
    }
    if has_console {
        note_console(&listeners, printer);
    }
    if let Some(address) = telemetry.address() {
        printer.note(format_args!("metrics on http://{address}/metrics"));
    }
    let warming = tokio::spawn(warm_up(&actions, *printer));
    let rows = Arc::new(running::rows_of_server(data));
    let keeper = RowKeeper::start(queue, rows, options.running.keep_rows);
    let runs = running::of_server(&options.running, &actions, data, &hooks).await?;
    let at_once = options.running.workflows;
    let workflows = workflowing::of_server(at_once, &actions, &runs, data)?;
    let charging = storing::of_server(&actions, data, &runs);
    let webhooks = webhooking::webhooks(&options.webhooks, Arc::new(hooks.clone()))?;
    let own = actions.clone();
    let mut server =
        Server::new(actions, Settings { grace: options.hosting.grace, ..Settings::default() })
            .with_webhooks(webhooks)
            .with_runs(runs)
            .with_workflows(workflows);
    if has_console {
        server = server.with_console(Console::embedded());
    }
    let stopped = async {
        interrupt.wait().await;
        printer.note("stopping: waiting for requests in progress, then every sandbox ends");
    };
    let ended = server.run(listeners, stopped).await;
    warming.abort();
    charging.abort();
    hooks.flush().await;
    keeper.stop().await;
    // It has heard by then of the rows that were stored.
    own.finish_gateway().await;
    telemetry.stop().await;
    ended.hint("start the server again; `GET /v1/ended` then lists the lost sandboxes")?;
    Ok(0)
}

/// Returns true unless a flag or the configuration file turns the console off.
fn has_console(options: &Serve) -> anyhow::Result<bool> {
    let file = file::File::read(&options.hosting)?;
    Ok(!options.no_console && file.console.unwrap_or(true))
}

/// Prints the address of the console, if this executable has it.
pub(super) fn note_console(listeners: &[Listener], printer: &Printer) {
    let first = listeners.first().and_then(|it| Some((it.scheme(), it.address()?)));
    if let Some((scheme, address)) = first.filter(|_| !Console::embedded().is_empty()) {
        let root = belljar_console::ROOT;
        printer.note(format_args!("console on {scheme}://{address}{root}"));
    }
}

pub(super) fn settings(
    options: &Hosting,
    config: &Config,
    data: &Path,
) -> anyhow::Result<belljar_sandboxes::Config> {
    let mut settings = belljar_sandboxes::Config::new(data.to_owned(), config.store.clone());
    settings.engine_state.clone_from(&config.state);
    settings.objects = options.sharing.place();
    let most = settings.pool.most.max(options.pool);
    settings.pool = PoolSize { least: options.pool, most, ..settings.pool };
    settings.snapshot_memory = options.snapshot_memory;
    settings.allow_weak_limits = options.allow_weak_limits;
    let file = file::File::read(options)?;
    settings.tiers = tiers::read(options, &file)?;
    let is_root = rustix::process::geteuid().is_root();
    settings.max_profile = max_profile(options.max_profile.or(file.max_profile), is_root)?;
    settings.max_limits = limits::read(options, &file)?;
    settings.networks = network::read(options, &file, config)?;
    Ok(settings)
}

/// The widest profile that is given. Without root on the host, a sandbox has one user id, so
/// `full` would be a name without rights.
fn max_profile(chosen: Option<SecurityProfile>, is_root: bool) -> anyhow::Result<SecurityProfile> {
    match chosen {
        Some(SecurityProfile::Full) if !is_root => {
            let error = anyhow::anyhow!(
                "cannot offer the profile `full`: without root on the host, a sandbox has one user id"
            );
            Err(hinted(error, "run the server as root, or set --max-profile strict"))
        }
        Some(profile) => Ok(profile),
        None if is_root => Ok(SecurityProfile::Full),
        None => Ok(SecurityProfile::Strict),
    }
}

fn keys(options: &Serve, data: &Path, printer: &Printer) -> anyhow::Result<Keys> {
    if let Some(path) = &options.keys {
        return Keys::read(path)
            .hint("use one `KEY TENANT [floor=TIER] [operations=NAMES]` per line; a key is e2b_ and 40 hex digits");
    }
    let path = data.join("keys");
    let (keys, made) = Keys::read_or_make(&path)?;
    if let Some(made) = made {
        printer.note(format_args!(
            "created an API key, shown only once; `{}` has its hash:",
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
                "warning: {address} is reachable from other hosts and not encrypted"
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
            let error = anyhow::anyhow!("there is no certificate for TLS");
            bail!(hinted(
                error,
                "create one with `belljar tls init --domain NAME`, or pass --tls-cert"
            ));
        }
    };
    let config: Arc<_> = tls::config(certificate, key)?;
    listeners.push(Listener::bind(address, Some(config)).hint("choose another port")?);
    Ok(listeners)
}

/// Warms up templates. The server counts as warming up from the call on.
pub(super) fn warm_up(
    actions: &Actions,
    printer: Printer,
) -> impl Future<Output = ()> + Send + use<> {
    let begin = Instant::now();
    let warming = actions.warm_up();
    async move {
        match warming.await {
            0 => printer.note(
                "no warm template: every sandbox starts cold\n\
                 hint: build one with `belljar template build code-interpreter`; sandboxes in \
                 oci/crun and oci/runc always start cold",
            ),
            _ => printer
                .note(format_args!("ready: warm after {:.1} s", begin.elapsed().as_secs_f64())),
        }
    }
}

/// Whether these settings would be taken, files included.
#[cfg(test)]
pub(crate) fn accepts(options: &Hosting) -> anyhow::Result<()> {
    settings(options, &Config::read(None, None), Path::new("/")).map(drop)
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::cli::{Cli, Command};

    #[test]
    fn the_console_is_served_unless_a_flag_or_the_file_says_no() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("serve.toml");
        let serves = |flags: &[&str], text: &str| {
            std::fs::write(&path, text).unwrap();
            let config = ["belljar", "serve", "--config", path.to_str().unwrap()];
            let line = config.iter().chain(flags);
            let Command::Serve(serve) = Cli::parse_from(line).command else { panic!() };
            has_console(&serve).unwrap()
        };
        assert!(serves(&[], ""));
        assert!(serves(&[], "console = true"));
        assert!(!serves(&[], "console = false"));
        assert!(!serves(&["--no-console"], ""));
        assert!(!serves(&["--no-console"], "console = true"));
    }

    #[test]
    fn a_profile_that_the_host_cannot_give_is_not_offered() {
        use SecurityProfile::{Full, Strict};
        assert_eq!(max_profile(None, true).unwrap(), Full);
        assert_eq!(max_profile(Some(Strict), true).unwrap(), Strict);
        assert_eq!(max_profile(None, false).unwrap(), Strict);
        assert_eq!(max_profile(Some(Strict), false).unwrap(), Strict);
        let refused = max_profile(Some(Full), false).unwrap_err().to_string();
        assert!(refused.contains("`full`") && refused.contains("root"), "{refused}");
    }
}
