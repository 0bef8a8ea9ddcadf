//! The `belljar` command.
//!
//! Reads the command line and the environment, runs one command, prints what
//! went wrong once, and exits with the code that the command decided.

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser as _};

use crate::cli::{Cli, Command};
use crate::config::Config;
use crate::output::Printer;

mod approvals;
mod builder;
mod cli;
mod commands;
mod config;
mod files;
mod limits;
mod network;
mod open_files;
mod output;
mod page;
mod relay;
mod session;
mod suggest;
mod templates;
mod terminal;
mod warmth;
mod weak;

fn main() -> ExitCode {
    // This executable is also the spawner, the gateway and what reads strangers' files;
    // nothing may come before.
    belljar_node::hook();
    belljar_gateway::hook();
    if let Some(code) = commands::dataset::hook() {
        return code;
    }
    let arguments: Vec<_> = std::env::args_os().collect();
    let cli = match Cli::try_parse_from(&arguments) {
        Ok(cli) => cli,
        Err(error) => suggest::improve(error, &Cli::command(), &arguments).exit(),
    };
    let config = Config::read(cli.store.clone(), cli.state.clone());
    let printer = cli.printer().with_colour(!config.no_colour);
    let status = match start(&cli, &config, &printer) {
        Ok(status) => status,
        Err(error) => {
            printer.error(&error);
            output::status_of(&error, cli.command.failure_status())
        }
    };
    ExitCode::from(status)
}

fn start(cli: &Cli, config: &Config, printer: &Printer) -> anyhow::Result<u8> {
    // A server has work for every core; a command is quicker without threads.
    let mut builder = match cli.command {
        Command::Serve(_) | Command::Control(_) | Command::Node(_) => {
            tokio::runtime::Builder::new_multi_thread()
        }
        _ => tokio::runtime::Builder::new_current_thread(),
    };
    let runtime = builder.enable_all().build()?;
    let status = runtime.block_on(dispatch(cli, config, printer));
    // A thread that still waits for input must not keep us.
    runtime.shutdown_background();
    status
}

/// Every command, and where it lives.
async fn dispatch(cli: &Cli, config: &Config, printer: &Printer) -> anyhow::Result<u8> {
    match &cli.command {
        Command::Run(options) => commands::run::run(options, config, printer).await,
        Command::Exec(options) => commands::exec::run(options, config, printer).await,
        Command::Shell(options) => commands::shell::run(options, config, printer).await,
        Command::Cells(options) => commands::cells::run(options, config, printer).await,
        Command::Agent(options) => commands::agent::run(options, config, printer).await,
        Command::Ask(options) => Box::pin(commands::ask::run(options, config, printer)).await,
        Command::Pipeline(options) => commands::pipeline::run(options, config, printer).await,
        Command::Runs(options) => commands::runs::run(options, config, printer).await,
        Command::Report(options) => commands::report::run(options, config, printer).await,
        Command::Eval(options) => Box::pin(commands::eval::run(options, config, printer)).await,
        Command::Usage(options) => commands::usage::run(options, config, printer).await,
        Command::Webhooks(options) => commands::webhooks::run(options, config, printer).await,
        Command::Approvals(options) => commands::approvals::run(options, config, printer).await,
        Command::Workflow(options) => {
            Box::pin(commands::workflow::run(options, config, printer)).await
        }
        Command::Cassette(options) => commands::cassette::run(options, config, printer),
        Command::Dataset(options) => commands::dataset::run(options, config, printer),
        Command::Doctor(options) => commands::doctor::run(options, config, printer).await,
        Command::Template(options) => commands::template::run(options, config, printer).await,
        Command::Serve(options) => commands::serve::run(options, config, printer).await,
        Command::Control(options) => commands::control::run(options, config, printer).await,
        Command::Node(options) => Box::pin(commands::node::run(options, config, printer)).await,
        Command::Env(options) => commands::env::run(options, config, printer),
        Command::Admin(options) => commands::admin::run(options, config, printer).await,
        Command::Dev(options) => commands::dev::run(options, config, printer).await,
        Command::Tls(options) => commands::tls::run(options, config, printer),
        Command::Bench(options) => commands::bench::run(options, config, printer).await,
        Command::Completions(options) => commands::completions::run(options, printer),
    }
}
