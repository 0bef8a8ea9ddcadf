//! `belljar node`: sandboxes for a platform.

use std::time::{Duration, Instant};

use anyhow::Context as _;
use belljar_actions::{Actions, Keys};
use belljar_bus::behalf::ClusterKey;
use belljar_bus::member::Registered;
use belljar_bus::platform::Beat;
use belljar_doorbell::Doorbell;
use belljar_server::{Cluster, Listener, Me, Member, Server, Settings};
use belljar_telemetry::Role;

use super::serve;
use crate::cli;
use crate::config::Config;
use crate::output::{Hint as _, Printer};
use crate::session::Interrupt;

const BEAT: Duration = Duration::from_secs(1);

pub(crate) async fn run(
    options: &cli::Node,
    config: &Config,
    printer: &Printer,
) -> anyhow::Result<u8> {
    let name = match &options.name {
        Some(name) => name.clone(),
        None => host_name().hint("say what it is called with --name")?,
    };
    let telemetry = options.hosting.observe.start(Role::Node, Some(&name))?;
    let data = options.hosting.data.as_deref().unwrap_or(&config.data);
    std::fs::create_dir_all(data)
        .with_context(|| format!("cannot make `{}`", data.display()))
        .hint("choose a directory that you may write to with --data")?;
    let mut interrupt = Interrupt::new()?;
    let key = ClusterKey::read(&options.platform.cluster_key)
        .hint("copy it from where control runs; `belljar admin cluster-key` made it")?;
    let listener =
        Listener::bind(options.listen, None).hint("choose another port with --listen")?;
    let mut settings = serve::settings(&options.hosting, config, data)?;
    settings.is_member = true;
    settings.slots = Some(usize::try_from(options.slots)?);
    // How many a tenant may have in all, control knows.
    settings.quota.sandboxes = usize::MAX;
    settings.domain.clone_from(&options.domain);
    settings.direct.clone_from(&options.direct_url);
    let actions = Actions::start(settings, Keys::elsewhere()).await;
    let actions = actions.hint("`belljar doctor` says what this host can run")?;
    serve::tiers::try_default(&actions, printer).await?;
    serve::network::try_gateway(&actions).await?;
    let warming = tokio::spawn(serve::warm_up(actions.clone(), *printer));
    let address =
        options.address.clone().or_else(|| Some(format!("http://{}", listener.address()?)));
    let address = address.context("it is not known where this node listens")?;
    let me = Me { name, address, slots: options.slots };
    let cluster = Cluster::new(key);
    printer.note(format_args!("{} registers with {}", me.name, options.control.join(", ")));
    let joined = Member::join(actions.clone(), cluster.clone(), me.clone(), &options.control);
    let member = tokio::select! {
        member = joined => member,
        () = interrupt.wait() => return Ok(0),
    };
    printer.note(format_args!("{} serves at {}", me.name, me.address));
    let staying = tokio::spawn(member.stay());
    let beating = if options.platform.nats.is_empty() {
        None
    } else {
        let doorbell = Doorbell::connect(&options.platform.nats).await;
        let doorbell = doorbell.context("cannot use the addresses of the bus")?;
        Some(tokio::spawn(beat(doorbell, actions.clone(), cluster.clone(), me.clone())))
    };
    let server = Settings { grace: options.hosting.grace, ..Settings::default() };
    let server = Server::behind(actions.clone(), server, cluster.clone());
    let stopped = async {
        interrupt.wait().await;
        printer.note("stopping: nothing new is made; requests may finish, then every sandbox ends");
        cluster.set_leaving();
        actions.set_draining(true);
        wait_for_sandboxes(&actions, options.drain).await;
    };
    let ended = server.run(vec![listener], stopped).await;
    staying.abort();
    if let Some(beating) = beating {
        beating.abort();
    }
    Member::leave(&actions, &cluster, &me, &options.control).await;
    warming.abort();
    telemetry.stop().await;
    ended.hint("start the node again: what was on it is lost")?;
    Ok(0)
}

/// Tells every replica of control how much is free, more often than they ask the
/// database. Only a hint: what keeps the node alive does not go over the bus.
async fn beat(doorbell: Doorbell, actions: Actions, cluster: Cluster, me: Me) {
    loop {
        if let Some(Registered { number, epoch, .. }) = cluster.registered() {
            let (hits, misses) = actions.pool_hits();
            let load = belljar_server::load(&actions, &me);
            doorbell.beat(&Beat { number, epoch, load, hits, misses });
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
    Ok(name.context("cannot find out what this host is called")?.trim().to_owned())
}
