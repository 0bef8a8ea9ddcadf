//! `belljar tls`: certificates for a server.

use anyhow::Context as _;
use belljar_server::tls;

use crate::cli::{Tls, TlsCommand};
use crate::config::Config;
use crate::output::Printer;

pub(crate) fn run(options: &Tls, config: &Config, printer: &Printer) -> anyhow::Result<u8> {
    let TlsCommand::Init { domain, data } = &options.command;
    let dir = data.as_ref().unwrap_or(&config.data).join("tls");
    let files = tls::init(&dir, domain).context("cannot create the certificates")?;
    printer.note(format_args!("created a certificate for {domain} and *.{domain}"));
    printer.data(format_args!(
        "authority    {}\ncertificate  {}\nkey          {}",
        files.authority.display(),
        files.certificate.display(),
        files.key.display(),
    ))?;
    printer.note(format_args!(
        "next: belljar serve --tls-listen 127.0.0.1:8443 --domain {domain}:8443\n      \
         eval \"$(belljar env --domain {domain}:8443 --key e2b_...)\""
    ));
    Ok(0)
}
