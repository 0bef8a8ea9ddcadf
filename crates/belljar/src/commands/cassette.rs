//! `belljar cassette`: the recorded outside world.

use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Write};
use std::path::Path;

use anyhow::{Context as _, bail};
use belljar_cassette::{Entry, Limits, Matching, Store, Tenant};
use belljar_domain::units::format_size;

use crate::cli::{Cassette, CassetteAction};
use crate::config::Config;
use crate::output::{Hint as _, Printer, hinted};

pub(crate) fn run(options: &Cassette, config: &Config, printer: &Printer) -> anyhow::Result<u8> {
    let data = options.data.as_deref().unwrap_or(&config.data);
    let place = data.join("gateway/cassettes");
    let store = Store::open(&place, Limits::default());
    let store = store.hint("set --data to the directory that it was recorded in")?;
    let tenant = store.tenant(&options.tenant);
    match &options.action {
        CassetteAction::List => list(&tenant, printer)?,
        CassetteAction::Show { cassette } => {
            for (number, entry) in tenant.entries(cassette)?.iter().enumerate() {
                printer.data(line(number, entry))?;
            }
        }
        CassetteAction::Diff { before, after } => {
            let changes = tenant.diff(before, after, &Matching::default())?;
            if !changes.is_empty() {
                printer.data(changes)?;
                return Ok(1);
            }
        }
        CassetteAction::Export { cassette, file } => {
            let out = create(file)?;
            tenant.export(cassette, out)?;
        }
        CassetteAction::Import { cassette, file } => {
            let taken = tenant.import(cassette, open(file)?)?;
            printer.note(format_args!("{cassette}: {} exchanges", taken.exchanges));
        }
        CassetteAction::Verify { cassette } => {
            let report = tenant.verify(cassette)?;
            for problem in &report.problems {
                printer.data(problem)?;
            }
            let (exchanges, blobs) = (report.exchanges, report.blobs);
            printer.note(format_args!("{cassette}: {exchanges} exchanges, {blobs} bodies read"));
            return Ok(u8::from(!report.problems.is_empty()));
        }
        CassetteAction::Remove { cassette } => {
            if !tenant.remove(cassette)? {
                let error = anyhow::anyhow!("there is no cassette `{cassette}`");
                bail!(hinted(error, "`belljar cassette list` shows cassettes"));
            }
        }
    }
    Ok(0)
}

fn list(tenant: &Tenant, printer: &Printer) -> anyhow::Result<()> {
    let all = tenant.list()?;
    if all.is_empty() {
        printer.note("no cassettes; `belljar run --record NAME` records one");
    }
    for one in all {
        let (exchanges, size) = (one.exchanges, format_size(one.bytes));
        printer
            .data(format_args!("{:<24} {exchanges:>6} exchanges {size:>10}", one.name.as_str()))?;
    }
    Ok(())
}

fn line(number: usize, Entry { request, answer }: &Entry) -> String {
    let bytes = answer.body.as_ref().map_or(0, |body| body.bytes);
    let size = format_size(bytes);
    format!("{number:>4} {:<5} {} {} {size}", request.method, request.url, answer.status)
}

fn create(path: &Path) -> anyhow::Result<Box<dyn Write>> {
    if path == Path::new("-") {
        return Ok(Box::new(std::io::stdout().lock()));
    }
    let file = File::create_new(path);
    let file = file.with_context(|| format!("cannot create `{}`", path.display()));
    Ok(Box::new(BufWriter::new(file.hint("existing files are never overwritten")?)))
}

fn open(path: &Path) -> anyhow::Result<Box<dyn Read>> {
    if path == Path::new("-") {
        return Ok(Box::new(std::io::stdin().lock()));
    }
    let file = File::open(path).with_context(|| format!("cannot read `{}`", path.display()))?;
    Ok(Box::new(BufReader::new(file)))
}
