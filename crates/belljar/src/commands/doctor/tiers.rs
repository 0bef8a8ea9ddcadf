//! Which tiers run here, judged by running something in each.

use std::time::{Duration, Instant};

use belljar_domain::{RootFs, Runtime, Spec, Tier};
use belljar_engine::{Accelerator, StartError};
use belljar_node::{Command, Node, NodeError};
use belljar_template::{Store, Template};

use super::{Finding, State, milliseconds};
use crate::config::Config;
use crate::output::Printer;

/// A machine that is emulated takes its time; one that takes longer hangs.
const LONGEST: Duration = Duration::from_secs(180);

pub(super) async fn findings(
    node: &Result<Node, NodeError>,
    host: &anyhow::Result<Template>,
    config: &Config,
    printer: &Printer,
) -> Vec<Finding> {
    let mut findings = Vec::new();
    // The usual one first: whether that works decides what this command answers.
    let order = [Tier::Jail, Tier::Process];
    let others = Tier::ALL.into_iter().filter(|tier| !order.contains(tier));
    for tier in order.into_iter().chain(others) {
        findings.push(finding(tier, node, host, config, printer).await);
    }
    findings
}

async fn finding(
    tier: Tier,
    node: &Result<Node, NodeError>,
    host: &anyhow::Result<Template>,
    config: &Config,
    printer: &Printer,
) -> Finding {
    let node = match node {
        Ok(node) => node,
        Err(error) => return failed(tier, error),
    };
    let root = match tier {
        Tier::Microvm => match machine_root(config) {
            Some(root) => root,
            None => {
                let why =
                    "no template is built, and a virtual machine cannot use the host's directories";
                return Finding::new(tier.as_str(), State::No, why)
                    .fix("belljar template build python-data");
            }
        },
        _ => match host {
            Ok(template) => template.root.clone(),
            Err(error) => return failed(tier, error.as_ref()),
        },
    };
    if tier == Tier::Microvm {
        printer.note(
            "microvm: booting one; the first boot of a template builds its image, which takes a \
             while",
        );
    } else if tier == Tier::GVISOR {
        printer.note("oci/runsc: starting one");
    }
    match attempt(tier, node, root).await {
        Ok(took) => works(tier, node, took).await,
        Err(error) => failed(tier, error.as_ref()),
    }
}

/// How long each part took.
struct Took {
    created: Duration,
    answered: Duration,
    gone: Duration,
}

/// Starts a sandbox, runs `true` in it, ends it.
async fn attempt(tier: Tier, node: &Node, root: RootFs) -> anyhow::Result<Took> {
    let start = Instant::now();
    let trial = async {
        let sandbox = node.create(&Spec::new(tier, root)).await?;
        let created = start.elapsed();
        let finished = sandbox.execute(&Command::new(["/bin/true"])).await;
        let answered = start.elapsed();
        sandbox.destroy().await?;
        let end = finished?.end;
        anyhow::ensure!(end.status() == 0, "`true` ended with {} ({})", end.status(), end.reason);
        Ok(Took { created, answered, gone: start.elapsed() })
    };
    match tokio::time::timeout(LONGEST, trial).await {
        Ok(tried) => tried,
        Err(_) => anyhow::bail!("it did not answer within {} s", LONGEST.as_secs()),
    }
}

async fn works(tier: Tier, node: &Node, took: Took) -> Finding {
    let mut detail = format!(
        "started in {}, first result after {}, removed after {}",
        milliseconds(took.created),
        milliseconds(took.answered),
        milliseconds(took.gone)
    );
    if let Some(chosen) = node.engine().accelerator().filter(|_| tier == Tier::Microvm) {
        let how = match chosen.accelerator {
            Accelerator::Kvm => "by the processor (KVM)",
            Accelerator::Tcg => "emulated (TCG)",
        };
        detail = format!("{detail}; {how}: {}; {}", chosen.why, chosen.monitor);
    }
    let Tier::Oci(runtime) = tier else { return Finding::new(tier.as_str(), State::Ok, detail) };
    match node.engine().runtime(runtime).await {
        Ok(judged) => {
            let (program, version) = (judged.program.display(), &judged.version);
            detail = format!("{detail}; {program}, {version}");
            match judged.forgiven {
                None => Finding::new(tier.as_str(), State::Ok, detail),
                Some(why) => {
                    let detail = format!("{detail}; FORCED: {why}");
                    Finding::new(tier.as_str(), State::Warn, detail).fix(newer(runtime))
                }
            }
        }
        Err(_) => Finding::new(tier.as_str(), State::Ok, detail),
    }
}

fn failed(tier: Tier, error: &(dyn std::error::Error + 'static)) -> Finding {
    let chain = std::iter::successors(Some(error), |error| error.source());
    let why: Vec<String> = chain.clone().map(ToString::to_string).collect();
    // The tier's name stands before it already.
    let unsupported = chain.filter_map(|error| error.downcast_ref::<StartError>()).find_map(|e| {
        if let StartError::Unsupported { why, .. } = e { Some(why.clone()) } else { None }
    });
    let detail = unsupported.clone().unwrap_or_else(|| why.join(": "));
    let finding = Finding::new(tier.as_str(), State::No, detail);
    let is_root = rustix::process::geteuid().is_root();
    match tier {
        Tier::Jail if !is_root => finding.fix("run belljar as root"),
        Tier::Jail => finding.fix("see the failed checks under `Host`"),
        Tier::Process => finding,
        Tier::Oci(_) | Tier::Microvm if !is_root => finding.fix("run belljar as root"),
        Tier::Oci(runtime) if unsupported.is_some() => finding.fix(newer(runtime)),
        Tier::Microvm if unsupported.is_some() => finding.fix(MACHINE),
        Tier::Oci(_) | Tier::Microvm => finding,
    }
}

/// How to get a runtime that may be used.
fn newer(runtime: Runtime) -> &'static str {
    match runtime {
        Runtime::Crun => "apt install crun, or set BELLJAR_CRUN=/path for a newer one",
        Runtime::Runc => {
            "install runc 1.3.6, 1.4.3 or newer and set BELLJAR_RUNC=/path; or use oci/crun"
        }
        Runtime::Runsc => "go install gvisor.dev/gvisor/runsc@go, and set BELLJAR_RUNSC=/path",
    }
}

const MACHINE: &str = "apt install qemu-system-x86 erofs-utils e2fsprogs";

/// What a machine can stand on: a template of layers alone, the smallest.
fn machine_root(config: &Config) -> Option<RootFs> {
    // Looking must not make it.
    if !config.store.join("templates").is_dir() {
        return None;
    }
    let store = Store::open(&config.store).ok()?;
    let mut known = store.list().ok()?;
    known.sort_by_key(|manifest| manifest.size);
    let roots = known.iter().filter_map(|manifest| Some(store.resolve(&manifest.name).ok()?.root));
    let mut roots = roots.filter(|root| root.binds.is_empty() && !root.layers.is_empty());
    roots.next()
}
