//! The steps after the base.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use belljar_domain::{Bind, EndReason};

use super::{Build, Step, StepError};
use crate::confined::{Attributes, Root};
use crate::digest::{Digest, Fields};
use crate::file::at;
use crate::packages::{npm, pip};
use crate::progress::{Lines, Progress};
use crate::recipe::FileEntry;
use crate::skeleton::BUILD_MOUNT;
use crate::stage::View;
use crate::store::{Layer, Workspace};
use crate::tree::Kind;

/// How often an offline install may ask for one more package.
const MAX_ROUNDS: usize = 8;

impl Build<'_> {
    pub(super) fn step_inputs(&self, step: Step<'_>) -> Result<Digest, StepError> {
        let packages = &self.recipe.packages;
        let mut fields = Fields::new();
        match step {
            Step::Base => {}
            Step::Pip => {
                fields.add("pip").add(self.python().as_os_str().as_encoded_bytes());
                fields.all(&packages.pip);
            }
            Step::Npm => {
                fields.add("npm").all(&packages.npm);
            }
            Step::Files => {
                fields.add("files");
                for entry in &self.recipe.files {
                    let (digest, _) = Digest::of_reader(&mut self.content(entry)?)
                        .map_err(at("read", &entry.target))?;
                    fields.add(entry.target.as_os_str().as_encoded_bytes());
                    fields.number(entry.mode.bits().into()).digest(&digest);
                }
            }
            Step::Run(command) => {
                fields.add("run").add(command);
                fields.all(self.env.keys()).all(self.env.values());
            }
        }
        Ok(fields.finish())
    }

    pub(super) fn make_step(
        &self,
        step: Step<'_>,
        work: &Workspace,
        progress: &mut dyn Progress,
    ) -> Result<Layer, StepError> {
        match step {
            Step::Base => self.make_base(work, progress),
            Step::Pip => self.make_pip(work, progress),
            Step::Npm => self.make_npm(work, progress),
            Step::Files => self.make_files(work),
            Step::Run(command) => {
                let argv = ["/bin/sh", "-euc", command].map(str::to_owned);
                let disk = work.path().join("disk");
                let (end, tail) = self.run(&argv, None, &[], &disk, progress)?;
                succeeded(command, &end, tail)?;
                Ok(self.builder.store.add_layer(&disk.join("upper"), Kind::Upper)?)
            }
        }
    }

    fn python(&self) -> PathBuf {
        let named = self.recipe.languages.get("python");
        named.cloned().unwrap_or_else(|| "/usr/bin/python3".into())
    }

    fn make_pip(&self, work: &Workspace, progress: &mut dyn Progress) -> Result<Layer, StepError> {
        let options = &self.builder.options;
        let python = self.python();
        let ask = [&python.display().to_string(), "-c", pip::ASK_VERSION].map(str::to_owned);
        let (end, said) = self.run(&ask, None, &[], &work.path().join("ask"), progress)?;
        let version = Some(said).filter(|_| end.reason == EndReason::Done);
        let version = version.and_then(|said| pip::Version::parse(said.lines().last()?));
        let version = version.ok_or_else(|| StepError::NoPython(python.clone()))?;

        let wheels = work.path().join("wheels");
        fs::create_dir(&wheels).map_err(at("create", &wheels))?;
        let wanted = &self.recipe.packages.pip;
        let mut fetch = wanted.clone();
        let argv = pip::install(&python, BUILD_MOUNT, wanted);
        let mut round = 0;
        loop {
            round += 1;
            let mut lines = Lines::default();
            let program = &options.tools.python;
            pip::download(program, &fetch, version, &wheels, options.step_timeout, &mut |bytes| {
                lines.feed(bytes, |line| progress.line(line));
            })?;
            let bind = Bind::of_sandboxes(wheels.clone(), BUILD_MOUNT);
            let disk = work.path().join(format!("disk{round}"));
            let (end, tail) = self.run(&argv, Some(bind), &pip::INSTALL_ENV, &disk, progress)?;
            match pip::missing(&tail) {
                Some(more) if end.reason == EndReason::Exit && round < MAX_ROUNDS => {
                    if fetch.contains(&more) {
                        succeeded(&argv.join(" "), &end, tail)?;
                    }
                    fetch.push(more);
                }
                _ => {
                    succeeded(&argv.join(" "), &end, tail)?;
                    return Ok(self.builder.store.add_layer(&disk.join("upper"), Kind::Upper)?);
                }
            }
        }
    }

    fn make_npm(&self, work: &Workspace, progress: &mut dyn Progress) -> Result<Layer, StepError> {
        let options = &self.builder.options;
        let (layer, root, view) = self.new_layer(work)?;
        // Preparing a name in it makes the directory with the view's attributes.
        let inside =
            view.prepare(&root, Path::new("/usr/local/lib")).map_err(at("create", "/usr/local"))?;
        let prefix = layer.join(inside.parent().unwrap_or(Path::new("")));
        let mut lines = Lines::default();
        let packages = &self.recipe.packages.npm;
        npm::install(&options.tools.npm, packages, &prefix, options.step_timeout, &mut |bytes| {
            lines.feed(bytes, |line| progress.line(line));
        })?;
        Ok(self.builder.store.add_layer(&layer, Kind::Base)?)
    }

    fn make_files(&self, work: &Workspace) -> Result<Layer, StepError> {
        let (layer, root, view) = self.new_layer(work)?;
        for entry in &self.recipe.files {
            let inside = view.prepare(&root, &entry.target).map_err(at("place", &entry.target))?;
            let mut content = self.content(entry)?;
            let attributes = Attributes::root(entry.mode.bits());
            root.file(&inside, &mut content, &attributes).map_err(at("write", &entry.target))?;
        }
        Ok(self.builder.store.add_layer(&layer, Kind::Base)?)
    }

    fn new_layer(&self, work: &Workspace) -> Result<(PathBuf, Root, View), StepError> {
        let layer = work.path().join("layer");
        fs::create_dir(&layer).map_err(at("create", &layer))?;
        let root = Root::open(&layer).map_err(at("open", &layer))?;
        let view = View::open(self.layers.iter().map(|layer| layer.path.as_path()))
            .map_err(at("open the layers under", &layer))?;
        Ok((layer, root, view))
    }

    fn content<'e>(&self, entry: &'e FileEntry) -> Result<Box<dyn Read + 'e>, StepError> {
        match &entry.source {
            Some(source) => {
                let path = self.recipe.locate(source);
                Ok(Box::new(File::open(&path).map_err(at("open", &path))?))
            }
            None => Ok(Box::new(entry.content.as_deref().unwrap_or_default().as_bytes())),
        }
    }
}

fn succeeded(command: &str, end: &belljar_domain::End, tail: String) -> Result<(), StepError> {
    if end.reason == EndReason::Done {
        return Ok(());
    }
    let end = match end.exit_code {
        Some(code) if end.reason == EndReason::Exit => format!("status {code}"),
        _ => end.reason.to_string(),
    };
    Err(StepError::Command { command: command.to_owned(), end, tail })
}
