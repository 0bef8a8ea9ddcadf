//! The command line of `belljar template`.

use std::path::PathBuf;
use std::time::Duration;

use belljar_domain::units::parse_time;
use clap::{Args, Subcommand};

/// Build, list and remove templates, the base images of sandboxes
#[derive(Debug, Args)]
#[command(after_help = TEMPLATE_EXAMPLES)]
pub(crate) struct Template {
    #[command(subcommand)]
    pub(crate) action: TemplateAction,
}

const TEMPLATE_EXAMPLES: &str = "\
Examples:
  belljar template recipes                 list the built-in recipes
  belljar template build python-data
  belljar template build ./my-recipe.toml
  belljar run --template python-data analysis.py";

#[derive(Debug, Subcommand)]
pub(crate) enum TemplateAction {
    /// Build a template from a recipe
    Build {
        /// Recipe file, or the name of a built-in recipe
        recipe: PathBuf,
        /// Run every step again, with the newest packages
        #[arg(long)]
        no_cache: bool,
        /// Wall-clock limit for each step
        #[arg(long, value_parser = parse_time, default_value = "10m", value_name = "TIME")]
        step_timeout: Duration,
        /// Debian mirror [default: the host's own]
        #[arg(long, value_name = "URL")]
        mirror: Option<String>,
        /// Hide progress
        #[arg(short, long)]
        quiet: bool,
    },
    /// List built templates
    List {
        /// Print one JSON document
        #[arg(long)]
        json: bool,
    },
    /// Show the details of a template
    Show {
        /// Template: NAME or NAME@VERSION
        template: String,
        /// Print one JSON document
        #[arg(long)]
        json: bool,
    },
    /// Remove a template or one version of it, and the layers that only it uses
    Remove {
        /// Template: NAME or NAME@VERSION
        template: String,
    },
    /// List the built-in recipes, or print one
    Recipes {
        /// Recipe to print
        name: Option<String>,
    },
}
