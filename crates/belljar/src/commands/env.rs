//! `belljar env`: the variables that point E2B's SDKs at a server.

use belljar_server::tls;

use crate::cli::{Env, EnvShell};
use crate::config::Config;
use crate::output::Printer;

mod trust;

pub(crate) fn run(options: &Env, config: &Config, printer: &Printer) -> anyhow::Result<u8> {
    let key = options.key.clone().or_else(|| config.api_key.clone());
    if key.is_none() {
        printer.note("note: pass the key that `belljar serve` printed with --key");
    }
    let mut variables = Vec::new();
    match &options.domain {
        Some(domain) => {
            variables.push(("E2B_DOMAIN", domain.clone()));
            let data = options.data.as_ref().unwrap_or(&config.data);
            let authority = tls::Files::below(&data.join("tls")).authority;
            if !options.public_ca {
                let bundle = options.bundle.clone();
                let bundle = bundle.unwrap_or_else(|| authority.with_file_name("bundle.pem"));
                trust::write(&authority, &bundle)?;
                // The first replaces a program's list of authorities, the second adds to it.
                variables.push(("SSL_CERT_FILE", bundle.display().to_string()));
                variables.push(("NODE_EXTRA_CA_CERTS", authority.display().to_string()));
            }
        }
        None => variables.extend(addresses(&options.url, options.data_url.as_deref())),
    }
    variables.push(("E2B_API_KEY", key.unwrap_or_else(|| "e2b_...".to_owned())));
    variables.sort_unstable();
    printer.data(render(options.shell, &variables))?;
    Ok(0)
}

/// What a shell needs to use the server at an address.
pub(crate) fn for_url(url: &str, key: &str) -> String {
    let mut variables = addresses(url, None).to_vec();
    variables.push(("E2B_API_KEY", key.to_owned()));
    variables.sort_unstable();
    render(EnvShell::Sh, &variables)
}

fn addresses(url: &str, data: Option<&str>) -> [(&'static str, String); 3] {
    let url = url.trim_end_matches('/').to_owned();
    let data = data.unwrap_or(&url).trim_end_matches('/').to_owned();
    [("E2B_SANDBOX_URL", data), ("E2B_VOLUME_API_URL", url.clone()), ("E2B_API_URL", url)]
}

fn render(shell: EnvShell, variables: &[(&str, String)]) -> String {
    let lines = variables.iter().map(|(name, value)| match shell {
        EnvShell::Sh => format!("export {name}='{}'", value.replace('\'', "'\\''")),
        EnvShell::Python => format!("os.environ[{name:?}] = {value:?}"),
        EnvShell::Javascript => format!("process.env.{name} = {value:?}"),
    });
    let first = (shell == EnvShell::Python).then(|| "import os".to_owned());
    first.into_iter().chain(lines).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_quoted_for_each_language() {
        let variables = [("A", "it's \"x\"".to_owned())];
        assert_eq!(render(EnvShell::Sh, &variables), r#"export A='it'\''s "x"'"#);
        let python = "import os\nos.environ[\"A\"] = \"it's \\\"x\\\"\"";
        assert_eq!(render(EnvShell::Python, &variables), python);
        let javascript = "process.env.A = \"it's \\\"x\\\"\"";
        assert_eq!(render(EnvShell::Javascript, &variables), javascript);
    }
}
