//! `belljar bench gateway`: what the gateway adds to a model request.
//!
//! The same 45 KB question, with the same streamed answer, of the same upstream:
//! straight, through nginx's `proxy_pass`, and through the gateway, which checks
//! a token, reads, rewrites and prices the request, puts money aside, adds the
//! credential, reads the answer for what it cost, searches it for the credential,
//! settles, and writes a row. Every answer and every row is checked.
//!
//! ```text
//!   clients (threads here) ─┬───────────────────────────► upstream (a process)
//!                           ├─► nginx, two workers ──────►
//!                           └─► belljar-gateway, its own ►
//!                                 process ── rows ──► here
//! ```

mod client;
mod exchange;
mod latency;
mod load;
mod nginx;
mod process;
mod show;
mod upstream;

use std::time::Duration;

use anyhow::Context as _;
use serde::Serialize;

use self::client::{Client, Target};
use self::latency::Latency;
use self::load::Until;
use self::nginx::Nginx;
use self::process::Gateway;
use self::upstream::Upstream;
use super::machine;
use super::report::{self, Aim};
use super::stats::Summary;
use crate::cli::BenchGateway;
use crate::output::Printer;

const STRAIGHT: &str = "straight";
const NGINX: &str = "nginx";
const GATEWAY: &str = "gateway";

/// How often memory is looked at.
const SAMPLES: u64 = 10;

#[derive(Debug, Serialize)]
struct Report {
    settings: Settings,
    throughput: Vec<Throughput>,
    /// At half of the rate at which the gateway is saturated.
    rate: f64,
    latency: Vec<Latency>,
    memory: Vec<Memory>,
    aims: Vec<Aim>,
}

#[derive(Debug, Serialize)]
struct Settings {
    cores: usize,
    body_bytes: usize,
    events: u32,
    clients: u32,
    rounds: u32,
    seconds: f64,
    /// None: it is not installed.
    nginx: Option<String>,
}

/// As fast as answers come.
#[derive(Debug, Serialize)]
struct Throughput {
    name: &'static str,
    answers: u64,
    per_second: f64,
    /// Of each round.
    rounds: Vec<f64>,
    /// Time on the CPU for a request, of the proxy's own processes.
    proxy_micros: f64,
    /// The same of the upstream and of the clients, who compete for the cores.
    upstream_micros: f64,
    client_micros: f64,
}

#[derive(Debug, Clone, Copy, Serialize)]
struct Memory {
    requests: u64,
    resident: u64,
}

/// Somebody to ask.
struct Contestant {
    name: &'static str,
    /// The proxy; none when there is none between.
    pid: Option<u32>,
    target: Target,
}

/// Everything that runs.
struct Bench<'a> {
    options: &'a BenchGateway,
    printer: &'a Printer,
    contestants: Vec<Contestant>,
    gateway: Gateway,
    upstream: Upstream,
    /// How often the gateway was asked.
    asked: u64,
}

pub(super) fn run(options: &BenchGateway, printer: &Printer) -> anyhow::Result<u8> {
    if options.as_upstream {
        upstream::serve(options.events, printer)?;
        return Ok(0);
    }
    let upstream = Upstream::start(options.events)?;
    let nginx = Nginx::start(&options.nginx, upstream.address)?;
    if nginx.is_none() {
        printer.note("nginx is not installed: skipped");
    }
    let gateway = Gateway::start(upstream.address)?;
    let body = exchange::body();
    let contestant = |name, address, pid| {
        let target = Target::new(address, &gateway.token, &body);
        Contestant { name, pid, target }
    };
    let mut contestants = vec![contestant(STRAIGHT, upstream.address, None)];
    contestants.extend(nginx.as_ref().map(|one| contestant(NGINX, one.address, Some(one.pid))));
    contestants.push(contestant(GATEWAY, gateway.address, Some(gateway.pid)));
    let mut bench = Bench { options, printer, contestants, gateway, upstream, asked: 0 };
    bench.check_answers()?;
    let throughput = bench.throughput()?;
    let rate = throughput.last().map_or(0.0, |gateway| gateway.per_second / 2.0);
    let latency = bench.latency(rate)?;
    let memory = bench.memory()?;
    let settings = Settings {
        cores: std::thread::available_parallelism().map_or(1, usize::from),
        body_bytes: body.len(),
        events: options.events,
        clients: options.clients,
        rounds: options.rounds,
        seconds: options.seconds.as_secs_f64(),
        nginx: nginx.as_ref().map(|nginx| nginx.version.clone()),
    };
    let aims = aims(&throughput, &latency, &memory);
    let report = Report { settings, throughput, rate, latency, memory, aims };
    report::publish(
        &report,
        &show::table(&report),
        &show::figure(&report),
        &options.output,
        printer,
    )?;
    Ok(0)
}

impl Bench<'_> {
    /// All contestants give the same answer, to the byte.
    fn check_answers(&mut self) -> anyhow::Result<()> {
        let expected = exchange::events(self.options.events).concat();
        for Contestant { name, target, .. } in &self.contestants {
            let events = Client::connect(target)
                .and_then(|mut client| client.events(target))
                .with_context(|| format!("{name} does not respond"))?;
            anyhow::ensure!(events == expected, "{name} changes the response");
        }
        self.asked += 1;
        self.gateway.await_rows(self.asked)
    }

    /// Who takes which turn of a round: everybody begins once in a while.
    fn order(&self, round: u32) -> impl Iterator<Item = usize> + use<> {
        let count = self.contestants.len();
        (0..count).map(move |turn| (turn + round as usize) % count)
    }

    fn throughput(&mut self) -> anyhow::Result<Vec<Throughput>> {
        let mut all: Vec<Throughput> = self.contestants.iter().map(Throughput::new).collect();
        for round in 0..self.options.rounds {
            for index in self.order(round) {
                let Contestant { name, pid, target } = &self.contestants[index];
                let cpu = || {
                    let proxy = pid.map_or(Duration::ZERO, machine::cpu_of);
                    [proxy, machine::cpu_of(self.upstream.pid), machine::own_cpu()]
                };
                let before = cpu();
                let until = Until::Passed(self.options.seconds);
                let done = load::closed(target, self.options.clients, until)
                    .with_context(|| format!("{name}, round {round}"))?;
                let after = cpu();
                let used = std::array::from_fn(|at| after[at].saturating_sub(before[at]));
                if *name == GATEWAY {
                    self.asked += done.answers;
                    self.gateway.await_rows(self.asked)?;
                }
                let per_second = all[index].add(&done, used);
                self.printer.note(format_args!("{name}: {per_second:.0} a second"));
            }
            self.gateway.keep()?;
        }
        all.iter_mut().for_each(Throughput::finish);
        Ok(all)
    }

    fn memory(&mut self) -> anyhow::Result<Vec<Memory>> {
        let Some(Contestant { target, .. }) = self.contestants.last() else { return Ok(vec![]) };
        let mut samples = Vec::new();
        let mut requests = 0;
        while requests < self.options.requests {
            let next = (self.options.requests / SAMPLES).max(1);
            let next = next.min(self.options.requests - requests);
            let done = load::closed(target, self.options.clients, Until::Answered(next))?;
            requests += done.answers;
            self.asked += done.answers;
            self.gateway.keep()?;
            self.gateway.await_rows(self.asked)?;
            let resident = machine::resident(self.gateway.pid);
            let resident = resident.context("the gateway's memory is not known")?;
            self.printer.note(format_args!(
                "{requests} requests: {:.1} MiB",
                resident as f64 / f64::from(1 << 20)
            ));
            samples.push(Memory { requests, resident });
        }
        Ok(samples)
    }
}

impl Throughput {
    fn new(contestant: &Contestant) -> Self {
        Self {
            name: contestant.name,
            answers: 0,
            per_second: 0.0,
            rounds: Vec::new(),
            proxy_micros: 0.0,
            upstream_micros: 0.0,
            client_micros: 0.0,
        }
    }

    fn add(&mut self, round: &load::Round, used: [Duration; 3]) -> f64 {
        let [proxy, upstream, client] = used.map(|time| time.as_secs_f64() * 1e6);
        self.answers += round.answers;
        self.proxy_micros += proxy;
        self.upstream_micros += upstream;
        self.client_micros += client;
        let per_second = round.answers as f64 / round.took.as_secs_f64();
        self.rounds.push(per_second);
        per_second
    }

    /// Sums become means.
    fn finish(&mut self) {
        let answers = self.answers.max(1) as f64;
        self.per_second = self.rounds.iter().sum::<f64>() / self.rounds.len().max(1) as f64;
        for sum in [&mut self.proxy_micros, &mut self.upstream_micros, &mut self.client_micros] {
            *sum /= answers;
        }
    }
}

fn aims(throughput: &[Throughput], latency: &[Latency], memory: &[Memory]) -> Vec<Aim> {
    let rate =
        |name: &str| throughput.iter().find(|one| one.name == name).map(|one| one.per_second);
    let ratio = rate(GATEWAY).zip(rate(NGINX)).map(|(ours, nginx)| ours / nginx);
    let tail = |name: &str, which: fn(&Latency) -> Option<Summary>| {
        latency.iter().find(|one| one.name == name).and_then(which).map(|summary| summary.p99_ms)
    };
    let is_undisturbed = latency.iter().all(Latency::is_undisturbed);
    let added = |which| {
        let both = tail(GATEWAY, which).zip(tail(STRAIGHT, which)).filter(|_| is_undisturbed);
        both.map(|(ours, bare)| ours - bare)
    };
    let most = memory.iter().map(|one| one.resident).max();
    let growth = memory.first().zip(most).map(|(first, most)| most as f64 / first.resident as f64);
    vec![
        Aim::at_least("throughput, as a share of nginx's, at least", 0.6, ratio),
        Aim::at_most(
            "added p99 of the first byte in ms, at most",
            2.0,
            added(|one| one.first_byte),
        ),
        Aim::at_most("added p99 of the whole answer in ms, at most", 2.0, added(|one| one.whole)),
        Aim::at_most("memory, as a multiple of the first sample, at most", 1.1, growth),
    ]
}

/// Threads that make the load, and who waits for other programs, have nothing
/// else to do meanwhile.
#[expect(clippy::disallowed_methods, reason = "no task waits on these threads")]
fn pause(time: std::time::Duration) {
    std::thread::sleep(time);
}
