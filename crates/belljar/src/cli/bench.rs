//! The options of `belljar bench`.

use std::path::PathBuf;
use std::time::Duration;

use belljar_model::Tier;
use belljar_model::units::parse_time;
use clap::{Args, Subcommand};

/// Measure Belljar beside what it is built from
#[derive(Debug, Args)]
pub(crate) struct Bench {
    #[command(subcommand)]
    pub(crate) kind: BenchKind,
}

#[derive(Debug, Subcommand)]
pub(crate) enum BenchKind {
    /// Create, run /bin/true, destroy: bare, jail, bwrap, crun, runc
    Start(BenchStart),
    /// Create, first answer of a Python with pandas imported
    FirstResult(BenchFirstResult),
    /// Many idle sandboxes with pandas imported: their memory, and what is left after
    Density(BenchDensity),
    /// Whole sessions: four datasets in, eight cells of pandas, the result out
    Sessions(BenchSessions),
    /// Copies of a context that holds a large data frame
    Fork(BenchFork),
    /// Every tier beside the engine that it is built from: starts, restores, slowdown, memory
    Tiers(BenchTiers),
    /// Create, first answer of `python3 --version`, over HTTP: bare, and with E2B's SDK
    Tti(BenchTti),
    /// A model request: straight, through nginx, and through the gateway
    Gateway(BenchGateway),
    /// A whole platform on this machine: sessions, what it adds, a lost node, a flood
    Platform(BenchPlatform),
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
        }
    }
}

/// Where the figures go besides the screen.
#[derive(Debug, Args)]
pub(crate) struct BenchOutput {
    /// Print one JSON document
    #[arg(long)]
    pub(crate) json: bool,
    /// Write that document to a file as well
    #[arg(long, value_name = "FILE")]
    pub(crate) json_file: Option<PathBuf>,
    /// Draw the figures into a file
    #[arg(long, value_name = "FILE")]
    pub(crate) svg: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct BenchStart {
    /// How many rounds; each contestant takes one turn a round
    #[arg(long, short = 'n', default_value_t = 200, value_parser = rounds())]
    pub(crate) count: u32,
    #[command(flatten)]
    pub(crate) output: BenchOutput,
}

#[derive(Debug, Args)]
pub(crate) struct BenchFirstResult {
    /// How many rounds; each contestant takes one turn a round
    #[arg(long, short = 'n', default_value_t = 200, value_parser = rounds())]
    pub(crate) count: u32,
    /// Rounds in which an interpreter starts and imports pandas, which is slow
    #[arg(long, default_value_t = 10, value_parser = rounds())]
    pub(crate) slow: u32,
    /// A template with Python, pandas and IPython
    #[arg(long, short, default_value = "python-data")]
    pub(crate) template: String,
    #[command(flatten)]
    pub(crate) output: BenchOutput,
}

#[derive(Debug, Args)]
pub(crate) struct BenchDensity {
    /// How many sandboxes
    #[arg(long, short = 'n', default_value_t = 2400, value_parser = rounds())]
    pub(crate) count: u32,
    /// How many are destroyed at a time
    #[arg(long, default_value_t = 8, value_parser = rounds())]
    pub(crate) parallel: u32,
    /// A template with Python, pandas and IPython
    #[arg(long, short, default_value = "python-data")]
    pub(crate) template: String,
    #[command(flatten)]
    pub(crate) output: BenchOutput,
}

#[derive(Debug, Args)]
pub(crate) struct BenchSessions {
    /// How many sessions at a time, one run after the other
    #[arg(long, value_delimiter = ',', default_value = "1,2,4", value_parser = rounds())]
    pub(crate) concurrency: Vec<u32>,
    /// How long each run takes
    #[arg(long, value_name = "TIME", value_parser = parse_time, default_value = "60")]
    pub(crate) seconds: Duration,
    /// Take sandboxes from a pool
    #[arg(long)]
    pub(crate) pool: bool,
    /// A template with Python, pandas and IPython
    #[arg(long, short, default_value = "python-data")]
    pub(crate) template: String,
    #[command(flatten)]
    pub(crate) output: BenchOutput,
}

#[derive(Debug, Args)]
pub(crate) struct BenchFork {
    /// How many rounds
    #[arg(long, short = 'n', default_value_t = 30, value_parser = rounds())]
    pub(crate) count: u32,
    /// Size of the data frame, in millions of bytes
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=1500))]
    pub(crate) megabytes: u32,
    /// How many children of one checkpoint at once
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(2..=64))]
    pub(crate) children: u32,
    /// A template with Python, pandas and IPython
    #[arg(long, short, default_value = "python-data")]
    pub(crate) template: String,
    #[command(flatten)]
    pub(crate) output: BenchOutput,
}

#[derive(Debug, Args)]
pub(crate) struct BenchTiers {
    /// The tiers to measure; all that this host can run when none is given
    #[arg(long, value_name = "TIER", value_delimiter = ',')]
    pub(crate) tier: Vec<Tier>,
    /// How many rounds; each contestant takes one turn a round
    #[arg(long, short = 'n', visible_alias = "count", default_value_t = 10, value_parser = rounds())]
    pub(crate) rounds: u32,
    /// Rounds in which an interpreter starts and imports pandas, which is slow
    #[arg(long, default_value_t = 3, value_parser = rounds())]
    pub(crate) slow: u32,
    /// A template with Python
    #[arg(long, short, default_value = "python-data")]
    pub(crate) template: String,
    #[command(flatten)]
    pub(crate) output: BenchOutput,
}

#[derive(Debug, Args)]
pub(crate) struct BenchTti {
    /// How many sandboxes, one after another, one every 200 ms, and all at once
    #[arg(long, short = 'n', default_value_t = 100, value_parser = rounds())]
    pub(crate) count: u32,
    /// A Python that has E2B's SDK installed
    #[arg(long, value_name = "FILE")]
    pub(crate) python: Option<PathBuf>,
    /// A server that runs already, as HOST:PORT; else one is started
    #[arg(long, value_name = "ADDRESS", requires = "key")]
    pub(crate) address: Option<String>,
    /// A key of that server
    #[arg(long)]
    pub(crate) key: Option<String>,
    /// Sandboxes that the server keeps waiting, at least
    #[arg(long, default_value_t = 16)]
    pub(crate) pool: usize,
    /// The template to ask for
    #[arg(long, short, default_value = "base")]
    pub(crate) template: String,
    #[command(flatten)]
    pub(crate) output: BenchOutput,
}

#[derive(Debug, Args)]
pub(crate) struct BenchGateway {
    /// How many rounds; each contestant takes one turn a round
    #[arg(long, short = 'n', default_value_t = 3, value_parser = rounds())]
    pub(crate) rounds: u32,
    /// How long each turn takes
    #[arg(long, value_name = "TIME", value_parser = parse_time, default_value = "8")]
    pub(crate) seconds: Duration,
    /// How many clients at a time
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) clients: u32,
    /// Pieces of text in an answer, each an event that is sent by itself
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=300))]
    pub(crate) events: u32,
    /// Requests during which memory is watched
    #[arg(long, default_value_t = 50_000)]
    pub(crate) requests: u64,
    /// The nginx to measure beside
    #[arg(long, value_name = "FILE", default_value = "nginx")]
    pub(crate) nginx: PathBuf,
    /// Be the upstream that is asked
    #[arg(long, hide = true)]
    pub(crate) as_upstream: bool,
    #[command(flatten)]
    pub(crate) output: BenchOutput,
}

#[derive(Debug, Args)]
pub(crate) struct BenchPlatform {
    /// Whole sessions through the API at a fixed rate; what each role spends on one
    #[arg(long)]
    pub(crate) sessions: bool,
    /// Create to first result, beside `belljar serve`
    #[arg(long)]
    pub(crate) overhead: bool,
    /// Three nodes, one of them killed
    #[arg(long)]
    pub(crate) loss: bool,
    /// Two tenants, one of them floods
    #[arg(long)]
    pub(crate) fairness: bool,
    /// A little of everything, in a minute; all four of the above if none is named
    #[arg(long)]
    pub(crate) quick: bool,
    /// Sessions that begin in a second
    #[arg(long, value_name = "N", default_value_t = 11.6)]
    pub(crate) rate: f64,
    /// How long sessions begin
    #[arg(long, value_name = "TIME", value_parser = parse_time, default_value = "600")]
    pub(crate) seconds: Duration,
    /// Sessions at once; whoever finds as many waits, and his time counts
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = rounds())]
    pub(crate) most: u32,
    /// Sessions send everything through control, and nothing to the sandbox's node itself
    #[arg(long)]
    pub(crate) through_control: bool,
    /// Sandboxes alive when a node is killed; fewer if memory would not do
    #[arg(long, value_name = "N", default_value_t = 2400, value_parser = rounds())]
    pub(crate) alive: u32,
    /// Creates of the quiet tenant, and of each side when `serve` is beside
    #[arg(long, short = 'n', default_value_t = 200, value_parser = rounds())]
    pub(crate) rounds: u32,
    /// Creates that the other tenant has in flight
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = rounds())]
    pub(crate) flood: u32,
    /// Sandboxes that a node keeps waiting, at least
    #[arg(long, default_value_t = 4)]
    pub(crate) pool: usize,
    /// Creates that a node works on at once; as many as there are cores if left out
    #[arg(long, value_name = "N")]
    pub(crate) at_once: Option<usize>,
    /// A template with Python, pandas and IPython
    #[arg(long, short, default_value = "code-interpreter")]
    pub(crate) template: String,
    /// Where the database is, for as long as it takes; on a disk, not in memory
    #[arg(long, value_name = "DIR", default_value = "/var/tmp")]
    pub(crate) data: PathBuf,
    #[command(flatten)]
    pub(crate) output: BenchOutput,
}

fn rounds() -> clap::builder::RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(1..=100_000)
}
