//! `--save-charts`: images that cells show, as files.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use belljar_node::{Bundle, CellEvent};
use serde_json::Value;

use crate::files;
use crate::output::Printer;

/// Forms of images and the extensions of their files. All but SVG are base64 in a bundle.
const FORMS: [(&str, &str); 6] = [
    ("image/png", "png"),
    ("image/jpeg", "jpg"),
    ("image/gif", "gif"),
    ("image/webp", "webp"),
    ("application/pdf", "pdf"),
    (SVG, "svg"),
];

const SVG: &str = "image/svg+xml";

/// Takes images out of what cells show.
#[derive(Debug)]
pub(super) struct Charts {
    directory: Option<PathBuf>,
    /// The cell whose images are counted, and their number so far.
    cell: usize,
    count: usize,
    /// Images that nobody asked to save.
    unsaved: usize,
}

impl Charts {
    /// Creates the directory, if one is given.
    pub(super) fn new(directory: Option<&Path>) -> anyhow::Result<Self> {
        if let Some(directory) = directory {
            fs::create_dir_all(directory)
                .with_context(|| format!("cannot create `{}`", directory.display()))?;
        }
        Ok(Self { directory: directory.map(Path::to_owned), cell: 0, count: 0, unsaved: 0 })
    }

    /// Saves the images of an event of the cell at `index`.
    pub(super) fn take(
        &mut self,
        index: usize,
        event: &CellEvent,
        printer: &Printer,
    ) -> anyhow::Result<()> {
        let data = match event {
            CellEvent::Display(display) => &display.data,
            CellEvent::Result { data, .. } => data,
            _ => return Ok(()),
        };
        for (extension, image) in images(data) {
            let Some(directory) = &self.directory else {
                self.unsaved += 1;
                continue;
            };
            if self.cell != index {
                (self.cell, self.count) = (index, 0);
            }
            self.count += 1;
            let name = format!("cell-{}-{}.{extension}", index + 1, self.count);
            let path = directory.join(name);
            files::write(&path, &image)
                .with_context(|| format!("cannot write `{}`", path.display()))?;
            printer.note(format_args!("saved {}", path.display()));
        }
        Ok(())
    }

    /// Says how to keep images that were shown as text only.
    pub(super) fn hint(&self, printer: &Printer) {
        if self.unsaved > 0 && !printer.is_json() {
            let images = if self.unsaved == 1 { "image" } else { "images" };
            printer.note(format_args!(
                "hint: the cells showed {} {images}; --save-charts DIR saves them",
                self.unsaved
            ));
        }
    }
}

/// The images of a bundle, with the extensions of their files.
fn images(data: &Bundle) -> Vec<(&'static str, Vec<u8>)> {
    let forms = FORMS.iter().filter_map(|&(form, extension)| {
        let text = data.get(form).and_then(Value::as_str)?;
        if form == SVG {
            return Some((extension, text.as_bytes().to_vec()));
        }
        // What is no base64 comes from the code itself: it is no image.
        let plain: String = text.split_whitespace().collect();
        Some((extension, STANDARD.decode(plain).ok()?))
    });
    forms.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_are_decoded_and_other_forms_are_left() {
        let data = Bundle::from([
            ("image/png".to_owned(), "aGVs\nbG8=\n".into()),
            (SVG.to_owned(), "<svg/>".into()),
            ("image/jpeg".to_owned(), "no base64!".into()),
            ("text/plain".to_owned(), "<Figure>".into()),
        ]);
        let found = images(&data);
        assert_eq!(found, [("png", b"hello".to_vec()), ("svg", b"<svg/>".to_vec())]);
    }
}
