use super::*;

fn records(keys: impl Iterator<Item = Vec<String>>) -> Tree {
    let mut tree = Tree::default();
    for keys in keys {
        let object = tree.begin_object(ROOT);
        for key in keys {
            if let Some((child, _)) = tree.child(ROOT, key.as_bytes(), object) {
                tree.add(child, Value::text(b"x"));
            }
        }
    }
    tree.fold_dictionaries();
    tree
}

fn keys(tree: &Tree) -> Vec<String> {
    let key = |&id: &Id| String::from_utf8_lossy(&tree.node(id).key).into_owned();
    tree.node(ROOT).children.iter().map(key).collect()
}

#[test]
fn a_dictionary_by_ids_becomes_one_path_with_all_counts() {
    let tree = records((0..5000).map(|n| vec![format!("user_{n}")]));
    assert_eq!(keys(&tree), ["<key>"]);
    let node = tree.node(ROOT);
    assert_eq!(tree.node(node.children[0]).counts.texts, 5000);
    let distinct = node.keys.as_ref().unwrap().many().distinct.as_ref().unwrap().estimate();
    assert!(distinct.abs_diff(5000) < 500, "{distinct}");
}

#[test]
fn a_small_dictionary_is_seen_at_the_end() {
    let tree = records((0..40).map(|n| vec![format!("2026-01-{:02}", n % 10 + 1)]));
    assert_eq!(keys(&tree), ["<key>"]);
}

#[test]
fn wide_and_sparse_records_stay_records() {
    let wide =
        records((0..20).map(|_| (0..300).map(|n| format!("field_{}", letters(n))).collect()));
    assert_eq!(keys(&wide).len(), 300);
    let sparse = records((0..30).map(|n| vec![format!("option_{}", letters(n % 12))]));
    assert_eq!(keys(&sparse).len(), 12);
}

fn letters(n: u32) -> String {
    [n / 26, n % 26].iter().filter_map(|n| char::from_u32(97 + n)).collect()
}

#[test]
fn too_many_paths_are_cut_and_counted() {
    let tree = records((0..3).map(|_| {
        (0..3000).map(|n| format!("k{}{}", letters(n / 600), letters(n % 600))).collect()
    }));
    assert!(tree.nodes.len() <= limits::PATHS);
    assert!(tree.node(ROOT).children.len() <= limits::KEYS);
    assert!(tree.cut.keys > 0);
}

#[test]
fn parts_merge_into_the_whole_even_if_only_one_was_folded() {
    let part = |from: u32, until: u32| {
        let mut tree = Tree::default();
        for n in from..until {
            let object = tree.begin_object(ROOT);
            let (child, _) = tree.child(ROOT, format!("id{n}").as_bytes(), object).unwrap();
            tree.add(child, Value::text(b"x"));
        }
        tree
    };
    let mut whole = part(0, 10);
    whole.merge(&part(10, 400));
    whole.merge(&part(400, 405));
    whole.fold_dictionaries();
    assert_eq!(keys(&whole), ["<key>"]);
    assert_eq!(whole.node(whole.node(ROOT).children[0]).counts.texts, 405);
    assert_eq!(whole.node(ROOT).counts.objects, 405);
}

#[test]
fn a_key_that_stands_twice_in_one_object_is_counted() {
    let tree = records([vec!["a".into(), "b".into(), "a".into()]].into_iter());
    assert_eq!(tree.cut.repeated, 1);
}
