//! Everything that can be asked for, in one list.

mod table;

use schemars::{Schema, SchemaGenerator};

pub use table::Operation;

/// Says what a type looks like, and enters it among the named ones.
pub(crate) type Shape = fn(&mut SchemaGenerator) -> Schema;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Method {
    Get,
    Post,
    Put,
    Patch,
    Delete,
}

impl Method {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Patch => "PATCH",
            Self::Delete => "DELETE",
        }
    }
}

/// Who may ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Whoever shows a key of this server.
    Key,
    Public,
}

/// What a request carries.
#[derive(Debug, Clone, Copy)]
pub enum Content {
    None,
    /// JSON of this shape; all of it may be left out where everything in it may.
    Json(Shape),
    /// Any bytes, however many.
    Bytes,
}

/// An answer that means success.
#[derive(Debug, Clone, Copy)]
pub enum Answer {
    Json(u16, Shape),
    /// Server-sent events whose data is JSON of this shape.
    Events(Shape),
    Bytes,
    Html,
    Svg,
    /// Any JSON: the document itself.
    Document,
    /// 204.
    Nothing,
}

/// One method on one path.
#[derive(Debug, Clone, Copy)]
pub struct Route {
    pub operation: Operation,
    pub method: Method,
    /// With parameters as `{name}`.
    pub path: &'static str,
    /// The noun that it is about.
    pub tag: &'static str,
    pub summary: &'static str,
    pub access: Access,
    pub(crate) query: Option<Shape>,
    pub content: Content,
    pub answers: &'static [Answer],
    /// Statuses besides those that every route of its kind can answer.
    pub(crate) also: &'static [u16],
    /// Headers that it alone reads.
    headers: &'static [(&'static str, &'static str)],
}

const FENCE: (&str, &str) = (
    "Run-Generation",
    "Fencing token of the worker that drives the sandbox. A lower number than the sandbox has \
     seen is refused.",
);

impl Route {
    /// Names of the parameters in the path, in order.
    pub fn parameters(&self) -> impl Iterator<Item = &'static str> {
        self.path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
    }

    /// Whether it is about one sandbox, and so refused to whoever acts for a
    /// generation that was replaced there.
    pub fn is_fenced(&self) -> bool {
        self.access == Access::Key && self.parameters().any(|name| name == "sandbox")
    }

    /// Whether it reaches into one sandbox, whose own token then is as good as a key.
    pub fn is_inside(&self) -> bool {
        ["calls", "contexts", "files"].contains(&self.tag)
    }

    /// Headers that it reads, each with what it means.
    pub fn headers(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        self.headers.iter().copied().chain(self.is_fenced().then_some(FENCE))
    }

    /// Every status that means that it was not done, in order.
    pub fn problems(&self) -> Vec<u16> {
        let mut all = vec![405, 500];
        if self.access == Access::Key {
            // Those of a platform too: scopes, a node that breaks off or is away.
            all.extend([401, 403, 502, 503]);
        }
        if self.parameters().next().is_some() {
            all.push(404);
        }
        if self.query.is_some() {
            all.push(422);
        }
        if self.is_fenced() {
            all.extend([400, 409]);
        }
        match self.content {
            Content::None => {}
            Content::Json(_) => all.extend([400, 413, 422]),
            Content::Bytes => all.push(422),
        }
        // Whatever reaches into a sandbox needs it to run, and to stay.
        if self.is_inside() {
            all.extend([409, 422]);
        }
        all.extend(self.also);
        all.sort_unstable();
        all.dedup();
        all
    }
}
