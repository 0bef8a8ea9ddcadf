//! Looks for a string in a program that tells its default nowhere else.

use std::io::Read as _;

use memchr::memmem;

use crate::files::Files;

/// How much of a program is looked at: a template's maker must not be able to
/// keep us busy.
const MOST_BYTES: u64 = 128 << 20;
const PIECE: u64 = 1 << 20;

/// How long a string may be.
const LONGEST: usize = 256;

/// The first thing that `take` makes of the bytes after a `mark`. It may get
/// fewer than there are, and then has to take nothing: it is asked again.
pub(super) fn find<T>(
    files: &dyn Files,
    path: &str,
    mark: &[u8],
    take: impl Fn(&[u8]) -> Option<T>,
) -> Option<T> {
    let mut file = files.open(path)?.take(MOST_BYTES);
    let finder = memmem::Finder::new(mark);
    let mut piece = Vec::new();
    loop {
        let more = file.by_ref().take(PIECE).read_to_end(&mut piece).ok()?;
        let bounded = |bytes: &[u8]| take(bytes.get(..LONGEST).unwrap_or(bytes));
        let found = finder.find_iter(&piece).find_map(|at| bounded(piece.get(at + mark.len()..)?));
        if found.is_some() || more == 0 {
            return found;
        }
        // What lies across two pieces is whole in the next one.
        let kept = piece.len().saturating_sub(mark.len() + LONGEST);
        piece.drain(..kept);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::Tree;

    #[test]
    fn what_lies_across_two_pieces_is_found() {
        let scratch = tempfile::tempdir().unwrap();
        let layers = vec![scratch.path().to_owned()];
        let tree = Tree::of(&belljar_domain::RootFs { layers, binds: vec![] }).unwrap();
        let whole = |after: &[u8]| after.starts_with(b"wanted/").then_some(());
        for before in [0, 1, 5, 9, 15, 300].map(|back| usize::try_from(PIECE).unwrap() - back) {
            let mut bytes = vec![b'x'; before];
            bytes.extend_from_slice(b"mark:other/mark:wanted/");
            bytes.resize(bytes.len() + 1000, 0);
            std::fs::write(scratch.path().join("program"), &bytes).unwrap();
            assert_eq!(find(&tree, "/program", b"mark:", whole), Some(()), "{before}");
            assert_eq!(find(&tree, "/program", b"mark;", whole), None);
        }
        assert_eq!(find(&tree, "/absent", b"mark:", whole), None);
    }
}
