//! The options of `belljar bench`.

use std::path::PathBuf;
use std::time::Duration;

use belljar_domain::Tier;
use belljar_domain::units::parse_time;
use clap::{Args, Subcommand, ValueEnum};

/// Measure Belljar next to the tools that it is built on
#[derive(Debug, Args)]
pub(crate) struct Bench {
    #[command(subcommand)]
    pub(crate) kind: BenchKind,
}

#[derive(Debug, Subcommand)]
pub(crate) enum BenchKind {
    /// Create, run /bin/true, destroy: bare, jail, bwrap, crun, runc
    Start(BenchStart),
    /// Time from create to the first result of a Python with pandas imported
    FirstResult(BenchFirstResult),
    /// Memory of many idle sandboxes with pandas imported, and leftovers after their end
    Density(BenchDensity),
    /// Whole sessions: four datasets in, eight cells of pandas, the result out
    Sessions(BenchSessions),
    /// Forks of a context that holds a large data frame
    Fork(BenchFork),
    /// Every tier next to its bare runtime: starts, restores, slowdown, memory
    Tiers(BenchTiers),
    /// Time from create to the result of `python3 --version` over HTTP, with and without E2B's SDK
    Tti(BenchTti),
    /// A model request: direct, through nginx, and through the gateway
    Gateway(BenchGateway),
    /// A complete platform on this host: sessions, overhead, a lost node, a flood of creates
    Platform(BenchPlatform),
    /// Many agent runs alive at once on a platform, with a replica and a node killed meanwhile
    Runs(BenchRuns),
    /// Time of a turn outside of model and code: runs of react and pipeline, in turn
    Turns(BenchTurns),
}

impl BenchKind {
    pub(crate) fn output(&self) -> &BenchOutput {
        match self {
            Self::Start(start) => &start.output,
            Self::FirstResult(first) => &first.output,
            Self::Density(density) => &density.output,
            Self::Sessions(sessions) => &sessions.output,
            Self::Fork(fork) => &fork.output,
            Self::Tiers(tiers) => &tiers.output,
            Self::Tti(tti) => &tti.output,
            Self::Gateway(gateway) => &gateway.output,
            Self::Platform(platform) => &platform.output,
            Self::Runs(runs) => &runs.output,
            Self::Turns(turns) => &turns.output,
        }
    }
}

/// Outputs of the figures besides the terminal.
#[derive(Debug, Args)]
pub(crate) struct BenchOutput {
    /// Print one JSON document
    #[arg(long)]
    pub(crate) json: bool,
    /// Write the JSON document to a file
    #[arg(long, value_name = "FILE")]
    pub(crate) json_file: Option<PathBuf>,
    /// Draw the figures to an SVG file
    #[arg(long, value_name = "FILE")]
    pub(crate) svg: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct BenchStart {
    /// Number of rounds; each contender runs once per round
    #[arg(long, short = 'n', default_value_t = 200, value_parser = rounds())]
    pub(crate) count: u32,
    #[command(flatten)]
    pub(crate) output: BenchOutput,
}

#[derive(Debug, Args)]
pub(crate) struct BenchFirstResult {
    /// Number of rounds; each contender runs once per round
    #[arg(long, short = 'n', default_value_t = 200, value_parser = rounds())]
    pub(crate) count: u32,
    /// Number of slow rounds, in which an interpreter starts cold and imports pandas
    #[arg(long = "cold-rounds", alias = "slow", value_name = "N", default_value_t = 10)]
    #[arg(value_parser = rounds())]
    pub(crate) slow: u32,
    /// Template to use; it needs Python, pandas and IPython
    #[arg(long, short, default_value = "python-data")]
    pub(crate) template: String,
    #[command(flatten)]
    pub(crate) output: BenchOutput,
}

#[derive(Debug, Args)]
pub(crate) struct BenchDensity {
    /// Number of sandboxes
    #[arg(long, short = 'n', default_value_t = 2400, value_parser = rounds())]
    pub(crate) count: u32,
    /// Number of sandboxes destroyed concurrently
    #[arg(long, default_value_t = 8, value_parser = rounds())]
    pub(crate) parallel: u32,
    /// Template to use; it needs Python, pandas and IPython
    #[arg(long, short, default_value = "python-data")]
    pub(crate) template: String,
    #[command(flatten)]
    pub(crate) output: BenchOutput,
}

#[derive(Debug, Args)]
pub(crate) struct BenchSessions {
    /// Concurrent sessions, one measurement for each value
    #[arg(long, value_delimiter = ',', default_value = "1,2,4", value_parser = rounds())]
    pub(crate) concurrency: Vec<u32>,
    /// Duration of each measurement
    #[arg(long, value_name = "TIME", value_parser = parse_time, default_value = "60")]
    pub(crate) seconds: Duration,
    /// Take sandboxes from a pool
    #[arg(long)]
    pub(crate) pool: bool,
    /// Template to use; it needs Python, pandas and IPython
    #[arg(long, short, default_value = "python-data")]
    pub(crate) template: String,
    #[command(flatten)]
    pub(crate) output: BenchOutput,
}

#[derive(Debug, Args)]
pub(crate) struct BenchFork {
    /// Number of rounds
    #[arg(long, short = 'n', default_value_t = 30, value_parser = rounds())]
    pub(crate) count: u32,
    /// Size of the data frame, in millions of bytes
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=1500))]
    pub(crate) megabytes: u32,
    /// Concurrent forks of one checkpoint
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(2..=64))]
    pub(crate) children: u32,
    /// Template to use; it needs Python, pandas and IPython
    #[arg(long, short, default_value = "python-data")]
    pub(crate) template: String,
    #[command(flatten)]
    pub(crate) output: BenchOutput,
}

#[derive(Debug, Args)]
pub(crate) struct BenchTiers {
    /// Tiers to measure, separated by commas [default: all that this host can run]
    #[arg(long, value_name = "TIER", value_delimiter = ',')]
    pub(crate) tier: Vec<Tier>,
    /// Number of rounds; each contender runs once per round
    #[arg(long, short = 'n', visible_alias = "count", default_value_t = 10, value_parser = rounds())]
    pub(crate) rounds: u32,
    /// Number of slow rounds, in which an interpreter starts cold and imports pandas
    #[arg(long = "cold-rounds", alias = "slow", value_name = "N", default_value_t = 3)]
    #[arg(value_parser = rounds())]
    pub(crate) slow: u32,
    /// Template to use; it needs Python
    #[arg(long, short, default_value = "python-data")]
    pub(crate) template: String,
    #[command(flatten)]
    pub(crate) output: BenchOutput,
}

#[derive(Debug, Args)]
pub(crate) struct BenchTti {
    /// Number of sandboxes: one after another, one every 200 ms, and all at once
    #[arg(long, short = 'n', default_value_t = 100, value_parser = rounds())]
    pub(crate) count: u32,
    /// Python executable with E2B's SDK installed
    #[arg(long, value_name = "FILE")]
    pub(crate) python: Option<PathBuf>,
    /// HOST:PORT of a running server [default: start one]
    #[arg(long, value_name = "ADDRESS", requires = "key")]
    pub(crate) address: Option<String>,
    /// API key of that server
    #[arg(long)]
    pub(crate) key: Option<String>,
    /// Minimum number of pre-started sandboxes on the server
    #[arg(long, default_value_t = 16)]
    pub(crate) pool: usize,
    /// Template to use
    #[arg(long, short, default_value = "base")]
    pub(crate) template: String,
    #[command(flatten)]
    pub(crate) output: BenchOutput,
}

#[derive(Debug, Args)]
pub(crate) struct BenchGateway {
    /// Number of rounds; each contender runs once per round
    #[arg(long, short = 'n', default_value_t = 3, value_parser = rounds())]
    pub(crate) rounds: u32,
    /// Duration of each measurement of a contender
    #[arg(long, value_name = "TIME", value_parser = parse_time, default_value = "8")]
    pub(crate) seconds: Duration,
    /// Concurrent clients
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) clients: u32,
    /// Number of events in a streamed response, each sent separately
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=300))]
    pub(crate) events: u32,
    /// Number of requests during which memory is sampled
    #[arg(long, default_value_t = 50_000)]
    pub(crate) requests: u64,
    /// nginx executable to compare with
    #[arg(long, value_name = "FILE", default_value = "nginx")]
    pub(crate) nginx: PathBuf,
    /// Run as the upstream of the benchmark
    #[arg(long, hide = true)]
    pub(crate) as_upstream: bool,
    #[command(flatten)]
    pub(crate) output: BenchOutput,
}

#[derive(Debug, Args)]
pub(crate) struct BenchPlatform {
    /// Measure complete sessions through the API at a fixed rate, and the cost to each role
    #[arg(long)]
    pub(crate) sessions: bool,
    /// Measure create to first result, compared with `belljar serve`
    #[arg(long)]
    pub(crate) overhead: bool,
    /// Measure the loss of one node out of three
    #[arg(long)]
    pub(crate) loss: bool,
    /// Measure a quiet tenant while another one floods the platform with creates
    #[arg(long)]
    pub(crate) fairness: bool,
    /// Measure briefly, in about a minute; without one of the four options above, all of them
    #[arg(long)]
    pub(crate) quick: bool,
    /// Sessions started per second
    #[arg(long, value_name = "N", default_value_t = 11.6)]
    pub(crate) rate: f64,
    /// Period in which sessions are started
    #[arg(long, value_name = "TIME", value_parser = parse_time, default_value = "600")]
    pub(crate) seconds: Duration,
    /// Maximum number of concurrent sessions; the waiting time of others is measured too
    #[arg(long = "max-sessions", alias = "most", value_name = "N", default_value_t = 64)]
    #[arg(value_parser = rounds())]
    pub(crate) most: u32,
    /// Send all requests of sessions through control, and none directly to nodes
    #[arg(long)]
    pub(crate) through_control: bool,
    /// Number of running sandboxes when a node is killed; fewer if memory is short
    #[arg(long = "sandboxes", alias = "alive", value_name = "N", default_value_t = 2400)]
    #[arg(value_parser = rounds())]
    pub(crate) alive: u32,
    /// Number of creates of the quiet tenant, and of each side in the comparison with `serve`
    #[arg(long, short = 'n', default_value_t = 200, value_parser = rounds())]
    pub(crate) rounds: u32,
    /// Concurrent creates of the flooding tenant
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = rounds())]
    pub(crate) flood: u32,
    /// Minimum number of pre-started sandboxes on each node
    #[arg(long, default_value_t = 4)]
    pub(crate) pool: usize,
    /// Concurrent creates per node [default: the number of cores]
    #[arg(long = "creates-per-node", alias = "at-once", value_name = "N")]
    pub(crate) at_once: Option<usize>,
    /// Template to use; it needs Python, pandas and IPython
    #[arg(long, short, default_value = "code-interpreter")]
    pub(crate) template: String,
    /// Temporary directory for the database; it should be on a disk, not in memory
    #[arg(long, value_name = "DIR", default_value = "/var/tmp")]
    pub(crate) data: PathBuf,
    #[command(flatten)]
    pub(crate) output: BenchOutput,
}

#[derive(Debug, Args)]
pub(crate) struct BenchRuns {
    /// Number of runs that are alive at once, and of runs at all
    #[arg(long, value_name = "N", default_value_t = 2400, value_parser = rounds())]
    pub(crate) alive: u32,
    /// Runs created per second
    #[arg(long, value_name = "N", default_value_t = 11.6)]
    pub(crate) rate: f64,
    /// Model answers of each run; the last one has no call
    #[arg(long, value_name = "N", default_value_t = 4)]
    #[arg(value_parser = clap::value_parser!(u32).range(2..=20))]
    pub(crate) turns: u32,
    /// Turns with a call in the sandbox, from the first one on; the other turns have a call that
    /// needs no sandbox
    #[arg(long, value_name = "N", default_value_t = 2)]
    #[arg(value_parser = clap::value_parser!(u32).range(0..=19))]
    pub(crate) calls: u32,
    /// Seed of the model's latencies
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Transactions of the database that may write for each run, besides two for each turn
    #[arg(long, value_name = "N", default_value_t = 6.0)]
    pub(crate) commits_of_run: f64,
    /// Kill neither a replica of control nor a node
    #[arg(long)]
    pub(crate) no_kills: bool,
    /// Maximum time in which no run starts or ends; longer on a machine that is busy with others
    #[arg(long, value_name = "TIME", value_parser = parse_time, default_value = "300")]
    pub(crate) patience: Duration,
    /// Concurrent creates per node [default: the number of cores]
    #[arg(long, value_name = "N")]
    pub(crate) creates_per_node: Option<usize>,
    /// Template to use; it needs Python and IPython
    #[arg(long, short, default_value = "python-data")]
    pub(crate) template: String,
    /// Temporary directory for the database; it should be on a disk, not in memory
    #[arg(long, value_name = "DIR", default_value = "/var/tmp")]
    pub(crate) data: PathBuf,
    /// Run as the model of the benchmark
    #[arg(long, hide = true)]
    pub(crate) as_model: bool,
    #[command(flatten)]
    pub(crate) output: BenchOutput,
}

#[derive(Debug, Args)]
pub(crate) struct BenchTurns {
    /// Agents to measure, with commas between them; they take turns
    #[arg(long, value_name = "AGENT", value_delimiter = ',', default_value = "react,pipeline")]
    pub(crate) agent: Vec<TurnAgent>,
    /// Number of rounds; each agent has one run per round
    #[arg(long, short = 'n', default_value_t = 100, value_parser = rounds())]
    pub(crate) count: u32,
    /// Minimum number of pre-started sandboxes on the server
    #[arg(long, default_value_t = 4)]
    pub(crate) pool: usize,
    /// Template to use; it needs Python and IPython
    #[arg(long, short, default_value = "python-data")]
    pub(crate) template: String,
    #[command(flatten)]
    pub(crate) output: BenchOutput,
}

/// An agent whose turns are measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TurnAgent {
    /// One model that calls tools
    React,
    /// Planner, Coder, Executor and Debugger
    Pipeline,
}

fn rounds() -> clap::builder::RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(1..=100_000)
}
