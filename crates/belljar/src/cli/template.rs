//! The command line of `belljar template`.

use std::path::PathBuf;
use std::time::Duration;

use belljar_model::units::parse_time;
use clap::{Args, Subcommand};

/// Build, list and remove templates, the bases that sandboxes stand on
#[derive(Debug, Args)]
#[command(after_help = TEMPLATE_EXAMPLES)]
pub(crate) struct Template {
    #[command(subcommand)]
    pub(crate) action: TemplateAction,
}

const TEMPLATE_EXAMPLES: &str = "\
Examples:
  belljar template recipes                 recipes that come with belljar
  belljar template build python-data
  belljar template build ./my-recipe.toml
  belljar run --template python-data analysis.py";

#[derive(Debug, Subcommand)]
pub(crate) enum TemplateAction {
    /// Build a template from a recipe
    Build {
        /// A recipe file, or the name of a recipe that comes with belljar
        recipe: PathBuf,
        /// Make every step again, with the newest packages
        #[arg(long)]
        no_cache: bool,
        /// The longest that one step may take
        #[arg(long, value_parser = parse_time, default_value = "10m", value_name = "TIME")]
        step_timeout: Duration,
        /// A Debian mirror to use instead of the host's own
        #[arg(long, value_name = "URL")]
        mirror: Option<String>,
        /// Show no progress
        #[arg(short, long)]
        quiet: bool,
    },
    /// List the templates that are built
    List {
        /// Print one JSON document
        #[arg(long)]
        json: bool,
    },
    /// Show what is known about a template
    Show {
        /// NAME or NAME@VERSION
        template: String,
        /// Print one JSON document
        #[arg(long)]
        json: bool,
    },
    /// Remove a template, or one version of it, and what only it needs
    Remove {
        /// NAME or NAME@VERSION
        template: String,
    },
    /// List the recipes that come with belljar, or print one
    Recipes {
        /// The recipe to print
        name: Option<String>,
    },
}
