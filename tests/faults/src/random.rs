//! Faults at random under load, from a seed.
//!
//! A round is load, some faults one after the other or at the same time, and peace;
//! then everything is judged as after a single fault. The same seed gives the same
//! faults at the same moments of the schedule.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use rustix::process::Signal;

use crate::case::Case;
use crate::client::{Client, History};
use crate::evidence::Outcome;
use crate::invariants::{Invariant, violations};
use crate::load::Load;
use crate::rig::Rig;
use crate::rig::cluster::{Cluster, Shape};
use crate::rig::host;
use crate::rig::proxy::Manner;

/// What is judged after each round.
const JUDGED: [Invariant; 6] =
    [Invariant::I1, Invariant::I2, Invariant::I3, Invariant::I5, Invariant::I6, Invariant::I10];

/// A create that broke off is looked for after a minute and a half.
const PATIENCE: Duration = Duration::from_secs(130);
const WORKERS: usize = 3;

/// Splitmix64: small, and the same everywhere.
#[derive(Debug)]
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn below(&mut self, most: usize) -> usize {
        let most = u64::try_from(most).unwrap_or(1).max(1);
        usize::try_from(self.roll() % most).unwrap_or_default()
    }

    pub(crate) fn millis(&mut self, least: u64, most: u64) -> Duration {
        Duration::from_millis(least + self.roll() % (most - least))
    }
}

/// Answers how many violations there were.
pub(crate) async fn run(belljar: &Path, seconds: u64, seed: u64) -> anyhow::Result<usize> {
    let began = Instant::now();
    let rig = Rig::new(belljar)?;
    let mut case = Case::new(rig.clone());
    let mut dice = Dice(seed);
    let shape = Shape { nodes: 3, is_proxied: true, ..Shape::default() };
    case.cluster = Some(Cluster::start(&rig, &shape).await?);
    let (mut rounds, mut faults, mut wrong) = (0, 0, 0);
    while began.elapsed() < Duration::from_secs(seconds) {
        rounds += 1;
        // What was told before has been judged.
        case.history = History::default();
        let played = Box::pin(round(&mut case, &mut dice)).await;
        let found = match &played {
            Ok(_) => judge(&case).await,
            Err(error) => vec![format!("{error:#}")],
        };
        let at = began.elapsed().as_secs();
        let (acts, said) = played.unwrap_or_else(|_| (0, String::new()));
        faults += acts;
        println!("{at:5} s round {rounds}: {said}");
        for found in &found {
            println!("        VIOLATION {found}");
        }
        wrong += found.len();
        if !found.is_empty() {
            crate::keep_logs(&rig, &format!("random-{seed}-{rounds}"));
            break;
        }
    }
    drop(case);
    let left = rig.clear();
    ensure!(left.is_empty(), "the rig left {left:?}");
    let took = began.elapsed().as_secs();
    println!("seed {seed}: {rounds} rounds, {faults} faults in {took} s, {wrong} violations");
    Ok(wrong)
}

/// What is wrong and stays so.
async fn judge(case: &Case) -> Vec<String> {
    let began = Instant::now();
    loop {
        let found = match case.collect().await {
            Ok(evidence) => violations(&JUDGED, &evidence).all().cloned().collect(),
            Err(error) => vec![format!("{error:#}")],
        };
        if found.is_empty() || began.elapsed() > PATIENCE {
            return found;
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

async fn round(case: &mut Case, dice: &mut Dice) -> anyhow::Result<(usize, String)> {
    let history = case.history.clone();
    history.may_break(true);
    let cluster = case.cluster.as_mut().context("no cluster")?;
    let clients: Vec<Client> = (0..2).map(|number| cluster.client(number, &history)).collect();
    let load = Load::begin(&clients, cluster.oracle.address, WORKERS);
    let mut told = Vec::new();
    let count = 2 + dice.below(4);
    for _ in 0..count {
        tokio::time::sleep(dice.millis(300, 2500)).await;
        told.push(act(cluster, dice, &clients).await?);
    }
    mend(cluster).await?;
    let whole = cluster.is_whole().await?;
    history.may_break(false);
    tokio::time::sleep(Duration::from_millis(500)).await;
    let did = load.end().await?;
    let works = clients[dice.below(2)].works(Duration::from_secs(30)).await?;
    let (whole, works) = (whole.as_secs_f64(), works.as_secs_f64());
    let said = format!("{}; whole {whole:.1} s, works {works:.1} s; {did}", told.join(", "));
    Ok((count, said))
}

/// One fault; what takes longer than a moment is undone by [`mend`] at the latest.
async fn act(cluster: &mut Cluster, dice: &mut Dice, clients: &[Client]) -> anyhow::Result<String> {
    let (node, control) = (dice.below(cluster.nodes.len()), dice.below(cluster.controls.len()));
    let bus = dice.below(3);
    let while_ = dice.millis(500, 9000);
    let held = format!("{:.1} s", while_.as_secs_f64());
    Ok(match dice.below(14) {
        0 => {
            cluster.nodes[node].kill();
            tokio::time::sleep(while_ / 4).await;
            cluster.nodes[node].start()?;
            format!("n{} killed", node + 1)
        }
        1 | 2 => {
            cluster.controls[control].kill();
            tokio::time::sleep(while_ / 4).await;
            cluster.controls[control].start()?;
            format!("c{} killed", control + 1)
        }
        3 => {
            cluster.nodes[node].program.signal(Signal::STOP);
            tokio::time::sleep(while_).await;
            cluster.nodes[node].program.signal(Signal::CONT);
            format!("n{} stood still {held}", node + 1)
        }
        4 => {
            cluster.controls[control].program.signal(Signal::STOP);
            tokio::time::sleep(while_ / 2).await;
            cluster.controls[control].program.signal(Signal::CONT);
            format!("c{} stood still {held}/2", control + 1)
        }
        5 => {
            for one in &cluster.controls {
                cluster.net.cut_both(&cluster.nodes[node].place, &one.place)?;
            }
            tokio::time::sleep(while_).await;
            for one in &cluster.controls {
                cluster.net.mend(&cluster.nodes[node].place, &one.place);
            }
            format!("n{} cut off {held}", node + 1)
        }
        6 => {
            let (one, other) = (&cluster.nodes[node].place, &cluster.controls[control].place);
            cluster.net.cut(one, other)?;
            tokio::time::sleep(while_).await;
            cluster.net.mend(one, other);
            format!("n{} to c{} cut {held}", node + 1, control + 1)
        }
        7 => {
            cluster.database_proxies[control].behave(Manner::Hold);
            tokio::time::sleep(while_).await;
            cluster.database_proxies[control].behave(Manner::Pass);
            format!("c{} without a database {held}", control + 1)
        }
        8 => {
            cluster.postgres.kill();
            cluster.postgres.again().await?;
            "database killed".to_owned()
        }
        9 => {
            cluster.postgres.stop_at_once().await?;
            tokio::time::sleep(while_ / 2).await;
            cluster.postgres.again().await?;
            format!("database away {held}/2")
        }
        10 => {
            cluster.nats.kill(bus);
            tokio::time::sleep(while_ / 2).await;
            cluster.nats.restart(bus)?;
            format!("bus {bus} killed")
        }
        11 => {
            cluster.nats.wipe(bus)?;
            cluster.nats.restart(bus)?;
            format!("bus {bus} wiped")
        }
        12 => {
            let mut guests = cluster.nodes[node].inhabitants().into_iter();
            let guest = guests.find(|&pid| host::command(pid).contains("belljar-guest"));
            if let Some(guest) = guest {
                host::signal(guest, Signal::KILL);
            }
            format!("a guest on n{} killed", node + 1)
        }
        _ => {
            let key = format!("random-{}", dice.roll());
            let pair = (clients[0].create(Some(&key)), clients[1].create(Some(&key)));
            let (one, other) = tokio::join!(pair.0, pair.1);
            for outcome in [one, other] {
                if let Outcome::Made(id) = outcome {
                    clients[0].delete(&id).await;
                }
            }
            "the same create at both".to_owned()
        }
    })
}

/// Everything that may be broken is whole again.
async fn mend(cluster: &mut Cluster) -> anyhow::Result<()> {
    for proxy in cluster.database_proxies.iter().chain(&cluster.nats_proxies) {
        proxy.behave(Manner::Pass);
    }
    for node in &cluster.nodes {
        for control in &cluster.controls {
            cluster.net.mend(&node.place, &control.place);
        }
    }
    for role in cluster.controls.iter_mut().chain(&mut cluster.nodes) {
        role.program.signal(Signal::CONT);
        if !role.program.is_alive() {
            role.start()?;
        }
    }
    cluster.postgres.again().await
}
