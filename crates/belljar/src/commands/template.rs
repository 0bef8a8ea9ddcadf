//! `belljar template`: what sandboxes stand on.

use std::path::Path;
use std::time::{Duration, SystemTime};

use anyhow::Context as _;
use belljar_domain::units::format_size;
use belljar_template::store::StoreError;
use belljar_template::{
    Base, Builder, Built, Cache, Manifest, Options, Recipe, Reference, Store, catalog, host,
};
use rustix::process::{Pid, Signal, kill_process_group};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use tokio::runtime::Handle;
use tokio::sync::watch;

use super::admin::table::Table;
use super::progress::Screen;
use crate::builder::Jails;
use crate::cli::{Template, TemplateAction};
use crate::config::Config;
use crate::output::{Hint as _, Printer, hinted};
use crate::session::{Interrupt, start_node};
use crate::templates;

pub(crate) async fn run(
    options: &Template,
    config: &Config,
    printer: &Printer,
) -> anyhow::Result<u8> {
    match &options.action {
        TemplateAction::Build { recipe, no_cache, step_timeout, mirror, .. } => {
            let options = Options {
                step_timeout: *step_timeout,
                cache: if *no_cache { Cache::Refresh } else { Cache::Use },
                mirror: mirror.clone(),
                ..Options::default()
            };
            return build(recipe, options, config, printer).await;
        }
        TemplateAction::List { .. } => list(config, printer)?,
        TemplateAction::Show { template, .. } => show(template, config, printer)?,
        TemplateAction::Remove { template } => remove(template, config, printer)?,
        TemplateAction::Recipes { name } => recipes(name.as_deref(), printer)?,
    }
    Ok(0)
}

fn open(config: &Config) -> anyhow::Result<Store> {
    let store = Store::open(&config.store).context("cannot open the template store");
    store.hint("run as root, or choose a writable directory with --store or BELLJAR_STORE")
}

async fn build(
    recipe: &Path,
    options: Options,
    config: &Config,
    printer: &Printer,
) -> anyhow::Result<u8> {
    let recipe = find_recipe(recipe, config)?;
    check_user(&recipe)?;
    let store = open(config)?;
    let node = start_node(config).await?;
    let mut interrupt = Interrupt::new()?;
    let (cancel, cancelled) = watch::channel(false);
    let jails = Jails::new(node, Handle::current(), cancelled);
    let mut screen = Screen::new(printer);
    let began = std::time::Instant::now();
    let mut building = tokio::task::spawn_blocking(move || {
        Builder::new(&store, &jails, options).build(&recipe, &mut screen)
    });
    let built = tokio::select! {
        built = &mut building => built?,
        () = interrupt.wait() => {
            // The build ends by itself, and removes its half-made layer, once
            // whatever it waits for is gone.
            let _ = cancel.send(true);
            end_tools();
            let _ = building.await;
            return Ok(130);
        }
    };
    let built = built.map_err(|error| {
        let hint =
            "the lines above the error are the step's output; `--no-cache` runs every step again";
        hinted(error, hint)
    })?;
    report(&built, began.elapsed(), printer)?;
    Ok(0)
}

/// Refuses what only root can build before anything is downloaded.
fn check_user(recipe: &Recipe) -> anyhow::Result<()> {
    let needs_root = matches!(recipe.base, Base::Debian { .. });
    if !needs_root || rustix::process::geteuid().is_root() {
        return Ok(());
    }
    let name = &recipe.name;
    let error = anyhow::anyhow!(
        "building `{name}` needs root: the files of its Debian base belong to several users, and \
         an ordinary user can create only files of their own"
    );
    let hint = format!(
        "build it once as root: `sudo belljar template build {name}`; every user of this host can \
         then run `belljar run --template {name}`. The template `host` needs no build"
    );
    Err(hinted(error, hint))
}

fn report(built: &Built, took: Duration, printer: &Printer) -> anyhow::Result<()> {
    let manifest = &built.manifest;
    printer.note(format_args!(
        "built in {:.1} s: {} steps, {} of them unchanged; {}, {} files",
        took.as_secs_f32(),
        built.steps,
        built.cached,
        format_size(manifest.size),
        manifest.files,
    ));
    printer.note(format_args!("use it with: belljar run --template {} …", manifest.name));
    Ok(printer.data(format_args!("{}@{}", manifest.name, manifest.version))?)
}

/// A file, or a recipe that comes with belljar.
fn find_recipe(asked: &Path, config: &Config) -> anyhow::Result<Recipe> {
    let text = asked.to_string_lossy();
    let is_name = !text.contains(['/', '.']);
    if is_name && let Some(recipe) = catalog::recipe(&text) {
        return Ok(recipe?);
    }
    if asked.is_file() {
        return Ok(Recipe::load(asked)?);
    }
    let names: Vec<_> = catalog::names().collect();
    let error = anyhow::anyhow!("there is no recipe `{text}`");
    let hint = format!("pass a file, or one of: {}", names.join(", "));
    Err(hinted(error, with_likely(&text, config, &hint)))
}

/// Ends the package tools that the build has started: they are children of
/// ours, each the leader of its own group. The spawner is one, too; it ends
/// with us, after its sandboxes.
fn end_tools() {
    let children = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let lists =
        children.filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
    let pids: Vec<i32> = lists
        .flat_map(|l| l.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
        .filter_map(|pid| pid.parse().ok())
        .collect();
    for pid in pids {
        let name = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        if name.starts_with(b"belljar-spawner") {
            continue;
        }
        if let Some(pid) = Pid::from_raw(pid) {
            let _ = kill_process_group(pid, Signal::KILL);
        }
    }
}

fn list(config: &Config, printer: &Printer) -> anyhow::Result<()> {
    let found = if config.store.exists() { open(config)?.list()? } else { Vec::new() };
    if printer.is_json() {
        let found: anyhow::Result<Vec<_>> = found.iter().map(document).collect();
        return printer.document(&found?);
    }
    if found.is_empty() {
        printer.note("no template is built yet; `host` needs no building");
        printer.note("hint: `belljar template recipes` lists the built-in recipes");
        return Ok(());
    }
    Ok(printer.data(listed(&found))?)
}

/// A manifest, with the names that sizes and times have in every `--json`.
fn document(manifest: &Manifest) -> anyhow::Result<serde_json::Value> {
    let mut document = serde_json::to_value(manifest)?;
    document["bytes"] = manifest.size.into();
    let created = i64::try_from(manifest.created).unwrap_or(i64::MAX);
    let created = OffsetDateTime::from_unix_timestamp(created)?;
    document["made_at"] = created.format(&Rfc3339)?.into();
    Ok(document)
}

/// The operator's templates first, then those of each tenant.
fn listed(found: &[Manifest]) -> Table<5> {
    let mut sorted: Vec<&Manifest> = found.iter().collect();
    sorted.sort_by_key(|manifest| owner(manifest));
    let mut table = Table::new(["TEMPLATE", "OWNER", "SIZE", "AGE", "DESCRIPTION"]);
    let mut seen = "";
    for manifest in sorted {
        let latest = seen != manifest.name;
        seen = &manifest.name;
        let note = if latest { manifest.description.as_str() } else { "(older)" };
        table.row([
            format!("{}@{}", manifest.name, manifest.version),
            owner(manifest).unwrap_or("-").to_owned(),
            format_size(manifest.size),
            age(manifest.created),
            note.to_owned(),
        ]);
    }
    table
}

/// The tenant that a template was built for; none: it is the operator's, for every tenant.
fn owner(manifest: &Manifest) -> Option<&str> {
    manifest.defaults.owner.as_deref()
}

fn age(created: u64) -> String {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let seconds = now.as_secs().saturating_sub(created);
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min", seconds / 60),
        3600..86_400 => format!("{} h", seconds / 3600),
        _ => format!("{} d", seconds / 86_400),
    }
}

fn show(text: &str, config: &Config, printer: &Printer) -> anyhow::Result<()> {
    if text == host::NAME {
        let template = host::prepare(&config.store)?;
        printer.data(format_args!("{}@{}", template.name, template.version))?;
        printer.data("  this host's own /usr, read-only; nothing to build")?;
        return printer_languages(&template.languages, printer);
    }
    let manifest = find(text, config)?;
    if printer.is_json() {
        return printer.document(&document(&manifest)?);
    }
    printer.data(format_args!("{}@{}", manifest.name, manifest.version))?;
    if !manifest.description.is_empty() {
        printer.data(format_args!("  {}", manifest.description))?;
    }
    let size = format_size(manifest.size);
    printer.data(format_args!("  size       {size}, {} files", manifest.files))?;
    printer.data(format_args!("  built      {} ago", age(manifest.created)))?;
    printer_languages(&manifest.languages, printer)?;
    for (name, value) in &manifest.env {
        printer.data(format_args!("  env        {name}={value}"))?;
    }
    let limits = manifest.limits.over(belljar_domain::Limits::default());
    printer.data(format_args!(
        "  limits     memory {}, {} thousandths of a core, {} processes, disk {}",
        format_size(limits.memory_bytes),
        limits.cpu_millis,
        limits.pids,
        format_size(limits.disk_bytes),
    ))?;
    for layer in &manifest.layers {
        printer.data(format_args!("  layer      {layer}"))?;
    }
    Ok(())
}

fn printer_languages(
    languages: &std::collections::BTreeMap<String, std::path::PathBuf>,
    printer: &Printer,
) -> anyhow::Result<()> {
    for (name, path) in languages {
        printer.data(format_args!("  language   {name}: {}", path.display()))?;
    }
    Ok(())
}

fn find(text: &str, config: &Config) -> anyhow::Result<Manifest> {
    let reference: Reference = text.parse()?;
    let hint = with_likely(text, config, "`belljar template list` shows built templates");
    if !config.store.exists() {
        return Err(hinted(StoreError::Unknown(reference), hint));
    }
    open(config)?.show(&reference).hint(hint)
}

/// A hint, behind the names that may have been meant.
fn with_likely(typed: &str, config: &Config, hint: &str) -> String {
    templates::likely(typed, config)
        .map_or_else(|| hint.to_owned(), |near| format!("{near} {hint}"))
}

fn remove(text: &str, config: &Config, printer: &Printer) -> anyhow::Result<()> {
    if text == host::NAME {
        let error = anyhow::anyhow!("the `host` template is the host itself");
        return Err(hinted(error, "there is nothing to remove"));
    }
    find(text, config)?;
    let collected = open(config)?.remove(&text.parse()?)?;
    printer.note(format_args!(
        "removed {text}: {} layers, {}",
        collected.layers,
        format_size(collected.bytes)
    ));
    if collected.in_use > 0 {
        printer.note(format_args!(
            "note: {} layers are still used by sandboxes; the next removal deletes them",
            collected.in_use
        ));
    }
    Ok(())
}

fn recipes(name: Option<&str>, printer: &Printer) -> anyhow::Result<()> {
    if let Some(name) = name {
        let text = catalog::text(name).ok_or_else(|| {
            let names: Vec<_> = catalog::names().collect();
            let error = anyhow::anyhow!("there is no recipe `{name}`");
            hinted(error, format!("the recipes are: {}", names.join(", ")))
        })?;
        return Ok(printer.data(text.trim_end())?);
    }
    for name in catalog::names() {
        let description = match catalog::recipe(name) {
            Some(Ok(recipe)) => recipe.description,
            _ => String::new(),
        };
        printer.data(format_args!("{name:<16} {description}"))?;
    }
    printer.note("hint: `belljar template build NAME` builds one, `recipes NAME` prints it");
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn manifest(name: &str, version: &str, owner: Option<&str>) -> Manifest {
        let manifest = json!({
            "name": name, "version": version, "description": "For tests", "created": 0,
            "layers": [], "binds": [], "env": {}, "languages": {}, "warm": null,
            "defaults": { "owner": owner }, "size": 1 << 20, "files": 1,
        });
        serde_json::from_value(manifest).unwrap()
    }

    #[test]
    fn the_list_shows_owners_and_its_columns_stand_below_each_other() {
        let long = "built-15ac9f0e2d7b4c6f8a1b";
        let found = [
            manifest(long, "0123456789ab", Some("acme")),
            manifest("python-data", "aaaaaaaaaaaa", None),
            manifest("python-data", "bbbbbbbbbbbb", None),
        ];
        let text = listed(&found).to_string();
        let lines: Vec<_> = text.lines().collect();
        let column = |name: &str| lines[0].find(name).unwrap();
        assert_eq!(lines.len(), 4, "{text}");
        assert!(lines[1].starts_with("python-data@a") && lines[2].ends_with("(older)"), "{text}");
        assert!(lines[3].starts_with(long), "the operator's come first: {text}");
        assert_eq!(&lines[1][column("OWNER")..=column("OWNER")], "-");
        assert!(lines[3][column("OWNER")..].starts_with("acme "), "{text}");
        for line in &lines[1..] {
            assert!(line[column("SIZE")..].starts_with("1.0 MiB "), "{text}");
        }
    }
}
