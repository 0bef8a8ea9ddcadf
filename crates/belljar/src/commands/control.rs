//! `belljar control`: a platform's API.

use std::sync::Arc;

use anyhow::Context as _;
use belljar_console::Console;
use belljar_control::{Control, Keyring, Random, Settings};
use belljar_identity::ControlKeys;
use belljar_nats::Doorbell;
use belljar_sandboxes::RowQueue;
use belljar_server::{Listener, RowKeeper, Settings as Bounds, tls};
use belljar_telemetry::Role;
use tokio::sync::watch;

use crate::cli;
use crate::commands::{admin, running, serve, storing, webhooking, workflowing};
use crate::config::Config;
use crate::open_files;
use crate::output::{Hint as _, Printer};
use crate::session::Interrupt;

pub(crate) async fn run(
    options: &cli::Control,
    config: &Config,
    printer: &Printer,
) -> anyhow::Result<u8> {
    let telemetry = options.observe.start(Role::Control, None)?;
    let mut interrupt = Interrupt::new()?;
    // A run that waits for its model has a connection.
    open_files::raise_limit();
    let listeners = listeners(options, printer)?;
    let secret = ControlKeys::read(&options.control_key)
        .hint("`belljar admin control-key FILE` creates one; all replicas need the same")?;
    let file = options.database_file.as_deref();
    let url = admin::database_address(options.database.as_deref(), file, config)?;
    let store = admin::connect_with(&url, options.database_connections).await?;
    store.migrate().await.hint("see PostgreSQL's log")?;
    let keyring = Keyring::open(&store, secret.clone(), options.certificate_life).await;
    let keyring = keyring.hint("use the same control key on every replica")?;
    let nodes = keyring.listen(options.node_listen);
    let nodes = nodes.hint("choose another port with --node-listen")?;
    let settings = Settings { at_once: options.at_once, ..Settings::default() };
    let seed = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?;
    let seed = seed.subsec_nanos() ^ std::process::id();
    let control = Control::new(store.clone(), keyring, settings, Random::new(seed.into()))?;
    if let Some(path) = &options.node_budgets {
        let settings = belljar_gateway::Config::read(path);
        let settings =
            settings.hint("--node-budgets takes the file that nodes have as --gateway")?;
        control.know_budgets(settings.known_budgets());
    }
    if !options.no_console {
        control.offer_console(Console::embedded());
    }
    let place = options.objects.clone().map(|place| match &options.objects_settings {
        Some(file) => place.with_settings(file),
        None => place,
    });
    let queue = RowQueue::new().context("cannot get random numbers")?;
    let rows = Arc::new(store.rows());
    let keeper = RowKeeper::start(queue.clone(), rows, options.running.keep_rows);
    let (working, charging) = match place {
        None => (None, storing::of_platform(&store, None)),
        Some(place) => {
            let gateway = options.gateway.as_deref();
            let (running, store) = (&options.running, &store);
            let gateway = (gateway, queue.clone());
            let (runs, gateway) =
                running::of_platform(running, &control, store, &place, gateway, config).await?;
            let charging = storing::of_platform(store, Some(runs.clone()));
            let at_once = running.workflows;
            let workflows = workflowing::of_platform(at_once, &control, &runs, store);
            let (stop, stopped) = watch::channel(());
            let (mut run_stop, mut workflow_stop) = (stopped.clone(), stopped);
            let working = tokio::spawn(async move {
                tokio::join!(
                    runs.work(async { while run_stop.changed().await.is_ok() {} }),
                    workflows.work(async { while workflow_stop.changed().await.is_ok() {} }),
                )
            });
            (Some((stop, working, gateway)), charging)
        }
    };
    let webhooks = webhooking::of_platform(&options.webhooks, &control, &store, secret)?;
    let delivering = tokio::spawn(async move { webhooks.work().await });
    let publishing = if options.platform.nats.is_empty() {
        None
    } else {
        let doorbell = Doorbell::connect(&options.platform.nats).await;
        let doorbell = doorbell.context("cannot use the URLs of --nats")?;
        let hearing = tokio::spawn(hear(doorbell.clone(), control.clone()));
        let publishing = tokio::spawn(belljar_control::publisher::run(store, doorbell));
        Some((hearing, publishing))
    };
    let scaling = match &options.scale_webhook {
        None => None,
        Some(url) => {
            let url = url.parse::<http::Uri>().with_context(|| format!("`{url}` is not a URL"));
            let (url, control) = (url.hint("use a URL like http://host/path")?, control.clone());
            Some(tokio::spawn(async move { control.tell_scale(url).await }))
        }
    };
    for listener in &listeners {
        if let Some(address) = listener.address() {
            printer.note(format_args!("listening on {}://{address}", listener.scheme()));
        }
    }
    if !options.no_console {
        serve::note_console(&listeners, printer);
    }
    if let Some(address) = nodes.address() {
        printer.note(format_args!("listening for nodes on https://{address}"));
    }
    if let Some(address) = telemetry.address() {
        printer.note(format_args!("metrics on http://{address}/metrics"));
    }
    let bounds = Bounds { grace: options.grace, ..Bounds::default() };
    let stopped = async {
        interrupt.wait().await;
        printer.note("stopping: waiting for requests in progress; sandboxes keep running");
    };
    control.run(listeners, vec![nodes], bounds, stopped).await;
    let mut own_gateway = None;
    if let Some((stop, working, gateway)) = working {
        // Runs are given back, so that others take them at once.
        drop(stop);
        working.await.context("the run worker panicked")?;
        if let Some(gateway) = &gateway {
            // A gateway that died has nothing to give back.
            let _ = gateway.finish().await;
        }
        own_gateway = gateway;
    }
    keeper.stop().await;
    if let Some(gateway) = own_gateway {
        // It has heard by then of the rows that were stored.
        let _ = gateway.finish().await;
    }
    delivering.abort();
    charging.abort();
    if let Some((hearing, publishing)) = publishing {
        hearing.abort();
        publishing.abort();
    }
    if let Some(scaling) = scaling {
        scaling.abort();
    }
    telemetry.stop().await;
    Ok(0)
}

/// What nodes say of themselves over the bus.
async fn hear(doorbell: Doorbell, control: Control) {
    let mut beats = doorbell.beats();
    while let Some(beat) = beats.next().await {
        control.hear_beat(&beat);
    }
}

fn listeners(options: &cli::Control, printer: &Printer) -> anyhow::Result<Vec<Listener>> {
    let mut listeners = Vec::new();
    for &address in &options.listen {
        if !address.ip().is_loopback() {
            printer.note(format_args!(
                "warning: {address} is reachable from other hosts and not encrypted"
            ));
        }
        let bound = Listener::bind(address, None);
        listeners.push(bound.hint("choose another port with --listen")?);
    }
    if let (Some(address), Some(certificate), Some(key)) =
        (options.tls_listen, &options.tls_cert, &options.tls_key)
    {
        let config = tls::config(certificate, key)?;
        listeners.push(Listener::bind(address, Some(config)).hint("choose another port")?);
    }
    Ok(listeners)
}
