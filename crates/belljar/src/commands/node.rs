//! `belljar node`: sandboxes for a platform.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use belljar_identity::{EnrolmentToken, NodeIdentity, private_file, sign_beat};
use belljar_nats::Doorbell;
use belljar_peer_proto::member::Registered;
use belljar_peer_proto::platform::Beat;
use belljar_sandboxes::{Actions, Keys, RowQueue};
use belljar_server::{Cluster, Listener, Me, Member, PlatformBudgets, Server, Settings};
use belljar_telemetry::Role;

use super::{running, serve};
use crate::cli;
use crate::config::Config;
use crate::output::{Hint as _, Printer, hinted};
use crate::session::Interrupt;

const BEAT: Duration = Duration::from_secs(1);

pub(crate) async fn run(
    options: &cli::Node,
    config: &Config,
    printer: &Printer,
) -> anyhow::Result<u8> {
    let name = match &options.name {
        Some(name) => name.clone(),
        None => host_name().hint("set the node's name with --name")?,
    };
    let telemetry = options.hosting.observe.start(Role::Node, Some(&name))?;
    let data = options.hosting.data.as_deref().unwrap_or(&config.data);
    std::fs::create_dir_all(data)
        .with_context(|| format!("cannot create `{}`", data.display()))
        .hint("choose a writable directory with --data")?;
    let mut interrupt = Interrupt::new()?;
    let directory = data.join("identity");
    let identity = tokio::select! {
        identity = identity(options, &name, &directory, printer) => identity?,
        () = interrupt.wait() => return Ok(0),
    };
    let cluster = Cluster::new(identity);
    let private = cluster.listen(options.listen).hint("choose another port with --listen")?;
    let public = options.public_listen.map(|address| Listener::bind(address, None)).transpose();
    let public = public.hint("choose another port with --public-listen")?;
    let mut settings = serve::settings(&options.hosting, config, data)?;
    settings.is_member = true;
    let budgets = PlatformBudgets::default();
    settings.networks.budgets = Some(Arc::new(budgets.clone()));
    settings.rows = Some(RowQueue::new().context("cannot get random numbers")?);
    settings.slots = Some(usize::try_from(options.slots)?);
    // How many a tenant may have in all, control knows.
    settings.quota.sandboxes = usize::MAX;
    settings.domain.clone_from(&options.domain);
    settings.direct.clone_from(&options.direct_url);
    settings.datasets = settings.objects.as_ref().map(running::shared);
    let actions = Actions::start(settings, Keys::elsewhere()).await;
    let actions = actions.hint("`belljar doctor` shows what this host can run")?;
    serve::tiers::try_default(&actions, printer).await?;
    serve::tiers::check_offered(&actions, printer).await;
    serve::network::try_gateway(&actions).await?;
    let warming = tokio::spawn(serve::warm_up(&actions, *printer));
    let address =
        options.address.clone().or_else(|| Some(format!("https://{}", private.address()?)));
    let address = address.context("cannot determine this node's address")?;
    let me = Me { name, address, slots: options.slots };
    printer.note(format_args!("{} registers with {}", me.name, options.control.join(", ")));
    let joined =
        Member::join(actions.clone(), cluster.clone(), me.clone(), &options.control, &budgets);
    let member = tokio::select! {
        member = joined => member.hint("use a URL like https://10.0.0.1:3001 for --control")?,
        () = interrupt.wait() => return Ok(0),
    };
    printer.note(format_args!("{} serves control at {}", me.name, me.address));
    if let Some(address) = public.as_ref().and_then(Listener::address) {
        printer.note(format_args!("{} serves clients at http://{address}", me.name));
    }
    let staying = tokio::spawn(member.stay());
    let beating = if options.platform.nats.is_empty() {
        None
    } else {
        let doorbell = Doorbell::connect(&options.platform.nats).await;
        let doorbell = doorbell.context("cannot use the URLs of --nats")?;
        Some(tokio::spawn(beat(doorbell, actions.clone(), cluster.clone(), me.clone())))
    };
    let listeners = std::iter::once(private).chain(public).collect();
    let server = Settings { grace: options.hosting.grace, ..Settings::default() };
    let server = Server::behind(actions.clone(), server, cluster.clone());
    let stopped = async {
        interrupt.wait().await;
        printer.note("stopping: no new sandboxes; waiting for requests, then every sandbox ends");
        cluster.set_leaving();
        actions.set_draining(true);
        wait_for_sandboxes(&actions, options.drain).await;
    };
    let ended = server.run(listeners, stopped).await;
    staying.abort();
    if let Some(beating) = beating {
        beating.abort();
    }
    Member::leave(&actions, &cluster, &me, &options.control).await;
    // It has heard by then of the rows that were stored.
    actions.finish_gateway().await;
    warming.abort();
    telemetry.stop().await;
    ended.hint("start the node again; its sandboxes are lost")?;
    Ok(0)
}

/// Who this node is: enrolled before, or now with its token, however long control takes.
async fn identity(
    options: &cli::Node,
    name: &str,
    directory: &Path,
    printer: &Printer,
) -> anyhow::Result<NodeIdentity> {
    let before = NodeIdentity::load(directory, name)?;
    let token = match &options.enrol_token_file {
        // A token file may be gone once it was used.
        Some(file) if before.is_none() || file.exists() => {
            let text = private_file::read(file).hint("`belljar admin node add` prints a token")?;
            Some(String::from_utf8_lossy(&text).parse::<EnrolmentToken>()?)
        }
        _ => None,
    };
    let token = token.filter(|token| before.as_ref().is_none_or(|it| !it.is_enrolled_with(token)));
    let Some(token) = token else {
        let hint = "`belljar admin node add NAME` prints a token; pass it with --enrol-token-file";
        return before.context("this host is not enrolled as a node of a platform").hint(hint);
    };
    printer.note(format_args!("{name} enrols with {}", options.control.join(", ")));
    let mut said = false;
    loop {
        match (belljar_server::enrol(&options.control, directory, name, &token).await, &before) {
            (Ok(identity), _) => {
                printer.note(format_args!("{name} is node {}", identity.number()));
                return Ok(identity);
            }
            (Err(error), None) if error.is_passing() => {
                if !said {
                    let error = anyhow::Error::new(error);
                    printer.note(format_args!("cannot enrol yet: {error:#}"));
                    said = true;
                }
                tokio::time::sleep(BEAT).await;
            }
            (Err(error), None) => {
                return Err(hinted(error, "`belljar admin node add` prints another token"));
            }
            (Err(error), Some(before)) => {
                let error = anyhow::Error::new(error);
                printer.note(format_args!(
                    "cannot enrol again, using the existing enrolment: {error:#}"
                ));
                return Ok(before.clone());
            }
        }
    }
}

/// Tells every replica of control how much is free, more often than they ask the
/// database. Only a hint: what keeps the node alive does not go over the bus.
async fn beat(doorbell: Doorbell, actions: Actions, cluster: Cluster, me: Me) {
    loop {
        if let Some(Registered { number, epoch, .. }) = cluster.registered() {
            let (hits, misses) = actions.pool_hits();
            let load = belljar_server::load(&actions, &me);
            let identity = cluster.identity();
            let at = identity.clock().now();
            let beat = Beat { number, epoch, load, hits, misses, at };
            if let Ok(signed) = sign_beat(identity.key(), &beat) {
                doorbell.beat(&signed);
            }
        }
        tokio::time::sleep(BEAT).await;
    }
}

/// Lets what runs come to its end, for so long.
async fn wait_for_sandboxes(actions: &Actions, longest: Duration) {
    let until = Instant::now() + longest;
    while Instant::now() < until && actions.registry().taken() > 0 {
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

fn host_name() -> anyhow::Result<String> {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname");
    Ok(name.context("cannot read the host name")?.trim().to_owned())
}
