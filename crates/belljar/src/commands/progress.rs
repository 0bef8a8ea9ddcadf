//! A build on the screen: one line for each step that is done, and one that
//! moves for the step under way. Plain lines where nobody watches.

use std::io::{self, IsTerminal as _};
use std::time::Duration;

use belljar_template::{Outcome, Progress, StepStart};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::output::Printer;

#[derive(Debug)]
pub(crate) struct Screen {
    printer: Printer,
    bar: Option<ProgressBar>,
    step: String,
}

impl Screen {
    pub(crate) fn new(printer: &Printer) -> Self {
        let watched = io::stderr().is_terminal() && !printer.is_quiet();
        let bar = watched.then(|| {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
            // The template is fixed and known to be right.
            if let Ok(style) =
                ProgressStyle::with_template("{spinner} {prefix} {elapsed}  {wide_msg}")
            {
                bar.set_style(style);
            }
            bar.enable_steady_tick(Duration::from_millis(120));
            bar
        });
        Self { printer: *printer, bar, step: String::new() }
    }

    fn say(&self, line: &str) {
        match &self.bar {
            Some(bar) => bar.println(line),
            None => self.printer.note(line),
        }
    }
}

/// Long steps name every package; one line is enough.
fn shortened(name: &str, most: usize) -> String {
    if name.chars().count() <= most {
        return name.to_owned();
    }
    let kept: String = name.chars().take(most - 1).collect();
    format!("{kept}…")
}

impl Progress for Screen {
    fn started(&mut self, step: &StepStart<'_>) {
        self.step = format!("[{}/{}] {}", step.number, step.total, shortened(step.name, 60));
        match &self.bar {
            Some(bar) => {
                bar.set_prefix(self.step.clone());
                bar.set_message("");
                bar.reset_elapsed();
            }
            None => self.printer.note(format_args!("{} …", self.step)),
        }
    }

    fn line(&mut self, line: &str) {
        if let Some(bar) = &self.bar {
            bar.set_message(line.trim().to_owned());
        }
    }

    fn bytes(&mut self, done: u64, total: u64) {
        if let Some(bar) = &self.bar {
            let size = belljar_domain::units::format_size;
            bar.set_message(format!("{} of {}", size(done), size(total)));
        }
    }

    fn finished(&mut self, outcome: Outcome, took: Duration) {
        let outcome = match outcome {
            Outcome::Made => "done",
            Outcome::Cached => "unchanged",
            Outcome::Failed => "FAILED",
        };
        self.say(&format!("{} {outcome} ({:.1} s)", self.step, took.as_secs_f32()));
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
