//! The way to a server that a command names.

use std::path::Path;

use anyhow::Context as _;
use belljar_client::{Client, Dial, Trust};

use crate::config::Config;
use crate::output::Hint as _;

/// A client of the server at `url`, with the key of a file or of the environment.
pub(super) fn client(url: &str, key: Option<&Path>, config: &Config) -> anyhow::Result<Client> {
    let key = match key {
        Some(path) => {
            let key = std::fs::read_to_string(path);
            Some(key.with_context(|| format!("cannot read `{}`", path.display()))?)
        }
        None => config.api_key.clone(),
    };
    let key = key
        .context("the server needs an API key")
        .hint("pass a file with --server-key, or set E2B_API_KEY")?;
    let dial = Dial::new(url, key.trim(), &Trust::Host);
    Ok(Client::new(dial.with_context(|| format!("cannot reach `{url}`"))?))
}
