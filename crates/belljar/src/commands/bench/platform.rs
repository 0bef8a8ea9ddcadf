//! `belljar bench platform`: PostgreSQL, NATS, control, nodes and the load, all
//! on this machine.
//!
//! All of it lives in a directory of its own, with what an operator would have:
//! durable writes, a warm template, a pool. The lost node is one of another three.

mod client;
mod fairness;
mod loss;
mod overhead;
mod rig;
mod roles;
mod sessions;
mod show;

use serde::Serialize;

use self::fairness::Fairness;
use self::loss::Loss;
use self::overhead::Overhead;
use self::rig::{Rig, Shape};
use self::sessions::Sessions;
use super::report::{self, Aim};
use crate::cli::BenchPlatform;
use crate::config::Config;
use crate::output::Printer;

#[derive(Debug, Serialize)]
struct Report {
    cores: usize,
    template: String,
    pool: usize,
    sessions: Option<Sessions>,
    overhead: Option<Overhead>,
    loss: Option<Loss>,
    fairness: Option<Fairness>,
    aims: Vec<Aim>,
}

/// More than anybody here has at once.
const SLOTS: u32 = 512;

pub(super) async fn run(
    options: &BenchPlatform,
    config: &Config,
    printer: &Printer,
) -> anyhow::Result<u8> {
    let named = [options.sessions, options.overhead, options.loss, options.fairness];
    let all = !named.contains(&true);
    let mut report = Report {
        cores: std::thread::available_parallelism().map_or(1, usize::from),
        template: options.template.clone(),
        pool: options.pool,
        sessions: None,
        overhead: None,
        loss: None,
        fairness: None,
        aims: Vec::new(),
    };
    if all || options.sessions || options.overhead || options.fairness {
        let shape = Shape { nodes: 1, slots: SLOTS, pool: options.pool, at_once: options.at_once };
        let mut rig = Rig::start(shape, options, config).await?;
        if all || options.sessions {
            report.sessions = Some(sessions::run(&mut rig, options, printer).await?);
        }
        if all || options.fairness {
            report.fairness = Some(fairness::run(&mut rig, options, printer).await?);
        }
        if all || options.overhead {
            report.overhead = Some(overhead::run(&mut rig, options, config, printer).await?);
        }
        rig.stop().await;
    }
    if all || options.loss {
        report.loss = Some(loss::run(options, config, printer).await?);
    }
    report.aims = report.aims(options);
    let (table, figure) = (show::table(&report), show::figure(&report));
    report::publish(&report, &table, &figure, &options.output, printer)?;
    Ok(u8::from(report.is_wrong()))
}

impl Report {
    fn aims(&self, options: &BenchPlatform) -> Vec<Aim> {
        let mut aims = Vec::new();
        if let Some(sessions) = &self.sessions {
            let rate = if options.quick { sessions.rate } else { options.rate };
            // The last one ends a little after the last one began.
            let rate = (rate * 0.99 * 100.0).round() / 100.0;
            let lost = sessions.lost as f64;
            aims.extend([
                Aim::at_least("sessions a second, at least", rate, Some(sessions.per_second)),
                Aim::at_most("sessions lost, at most", 0.0, Some(lost)),
                Aim::at_most(
                    "CPU ms besides the cells', at most",
                    45.0,
                    Some(sessions.cpu.outside),
                ),
            ]);
        }
        if let Some(overhead) = &self.overhead {
            aims.push(Aim::at_most(
                "ms that the platform adds, p50, at most",
                5.0,
                overhead.added_ms,
            ));
        }
        if let Some(loss) = &self.loss {
            let stray = loss.others as f64 - loss.untouched as f64;
            let wrong = f64::from(loss.used) - loss.used_rightly as f64;
            aims.extend([
                Aim::at_most("seconds until all are lost, at most", 10.0, Some(loss.lost_after_s)),
                Aim::at_most("others that were touched, at most", 0.0, Some(stray.abs())),
                Aim::at_most("places that are wrongly counted, at most", 0.0, Some(wrong.abs())),
            ]);
        }
        if let Some(fairness) = &self.fairness {
            aims.push(Aim::at_most(
                "p99 beside a flood, times alone, at most",
                2.0,
                fairness.ratio,
            ));
        }
        aims
    }

    /// Something was lost that must not be, however slow the machine is.
    fn is_wrong(&self) -> bool {
        let lost = self.sessions.as_ref().is_some_and(|sessions| sessions.lost > 0);
        let touched = self.loss.as_ref().is_some_and(|loss| {
            loss.untouched != loss.others as u64
                || loss.answered != loss.asked
                || loss.used as usize != loss.used_rightly
                || !loss.created_after
        });
        lost || touched
    }
}
