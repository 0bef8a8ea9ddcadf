//! `belljar pipeline exec`: the Executor alone, fed by hand.

use anyhow::Context as _;
use belljar_pipeline::{CodeArtifact, check_code};

use super::ask;
use crate::cli::{Pipeline, PipelineAction};
use crate::config::Config;
use crate::output::{Hint as _, Printer};

const SHAPE: &str = "docs/pipeline.md describes the file";

pub(crate) async fn run(
    options: &Pipeline,
    config: &Config,
    printer: &Printer,
) -> anyhow::Result<u8> {
    let PipelineAction::Exec(exec) = &options.action;
    let path = &exec.artifact;
    let text = std::fs::read(path);
    let text = text.with_context(|| format!("cannot read `{}`", path.display()))?;
    let artifact: CodeArtifact = serde_json::from_slice(&text)
        .with_context(|| format!("`{}` is no artifact", path.display()))
        .hint(SHAPE)?;
    check_code(&artifact).hint(SHAPE)?;
    let asked = exec.to_ask(artifact)?;
    Box::pin(ask::run(&asked, config, printer)).await
}
