//! `belljar run`: a script or a piece of code.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Read as _};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use anyhow::{Context as _, bail};
use belljar_domain::{Limits, User};

use super::call::{self, StandardInput};
use super::language::{self, Language};
use crate::cli::Run;
use crate::config::Config;
use crate::output::{Hint as _, Printer};
use crate::session::{self, Session};

/// The longest script that is read from standard input.
const LONGEST_SCRIPT: u64 = 64 << 20;

/// What is to run.
#[derive(Debug)]
enum Source {
    Code(String),
    Script { name: OsString, content: Vec<u8>, mode: u32 },
}

pub(crate) async fn run(options: &Run, config: &Config, printer: &Printer) -> anyhow::Result<u8> {
    // Everything that can be wrong with the request is found before the
    // sandbox is made.
    let (source, language) = read(options)?;
    let from_stdin = options.file.as_deref().is_some_and(|file| file == Path::new("-"));
    let input = if from_stdin { StandardInput::Taken } else { StandardInput::Free };
    let limits = Limits::default();
    session::within(&options.sandbox, limits, config, printer, async |session| {
        session.prepare(&options.sandbox, printer).await?;
        let argv = place(session, source, language, &options.args).await?;
        let command = session.command(argv, &options.sandbox);
        call::run(session, command, input, &options.sandbox, &options.call, printer).await
    })
    .await
}

fn read(options: &Run) -> anyhow::Result<(Source, &'static Language)> {
    let named = options.lang.as_deref().map(language::named).transpose()?;
    if let Some(code) = &options.code {
        return Ok((Source::Code(code.clone()), named.unwrap_or_else(language::default)));
    }
    let path = options.file.as_deref().unwrap_or(Path::new("-"));
    if path == Path::new("-") {
        let language = named.unwrap_or_else(language::default);
        let mut content = Vec::new();
        let mut stdin = io::stdin().lock().take(LONGEST_SCRIPT + 1);
        stdin.read_to_end(&mut content).context("cannot read the script")?;
        if content.len() as u64 > LONGEST_SCRIPT {
            bail!("the script on standard input is too large");
        }
        let name = format!("main.{}", language.extensions[0]).into();
        return Ok((Source::Script { name, content, mode: 0o644 }, language));
    }
    let doing = || format!("cannot read `{}`", path.display());
    let content = fs::read(path).with_context(doing).hint("pass code with -c")?;
    let mode = fs::metadata(path).with_context(doing)?.permissions().mode() & 0o777;
    let language = match named {
        Some(language) => language,
        None => language::of_file(path, &content)?,
    };
    let name = path.file_name().with_context(doing)?.to_owned();
    Ok((Source::Script { name, content, mode: mode | 0o400 }, language))
}

/// Puts the script where it runs, and says how.
async fn place(
    session: &Session,
    source: Source,
    language: &Language,
    args: &[OsString],
) -> anyhow::Result<Vec<Vec<u8>>> {
    let interpreter = language.interpreter(&session.template)?;
    let mut argv = vec![interpreter.into_os_string().into_vec()];
    match source {
        Source::Code(code) => {
            argv.push(language.code_flag.into());
            argv.push(code.into_bytes());
            if !args.is_empty() {
                argv.extend(language.before_args.iter().map(|arg| (*arg).into()));
            }
        }
        Source::Script { name, content, mode } => {
            let path = session.home.join(name).into_os_string().into_vec();
            let uploaded =
                session.sandbox.upload(User::User, &path, mode, &mut content.as_slice()).await;
            uploaded.context("cannot copy the script into the sandbox")?;
            argv.push(path);
        }
    }
    argv.extend(args.iter().map(|arg| arg.as_bytes().to_vec()));
    Ok(argv)
}
