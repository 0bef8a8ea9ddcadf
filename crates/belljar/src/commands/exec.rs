//! `belljar exec`: any command.

use std::os::unix::ffi::OsStrExt as _;

use belljar_domain::Limits;

use super::call::{self, StandardInput};
use crate::cli::Exec;
use crate::config::Config;
use crate::output::Printer;
use crate::session;

pub(crate) async fn run(options: &Exec, config: &Config, printer: &Printer) -> anyhow::Result<u8> {
    let limits = Limits::default();
    session::within(&options.sandbox, limits, config, printer, async |session| {
        session.prepare(&options.sandbox, printer).await?;
        let argv = options.command.iter().map(|word| word.as_bytes());
        let command = session.command(argv, &options.sandbox);
        let (sandbox, input) = (&options.sandbox, StandardInput::Free);
        call::run(session, command, input, sandbox, &options.call, printer).await
    })
    .await
}
