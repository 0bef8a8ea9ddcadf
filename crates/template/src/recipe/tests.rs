use std::error::Error as _;

use expect_test::{Expect, expect};

use super::*;

fn parse(text: &str) -> Result<Recipe, RecipeError> {
    Recipe::parse(text, "test.toml", Path::new("/recipes"))
}

/// The error and its causes, as the command line would show them.
#[track_caller]
fn check_error(text: &str, want: Expect) {
    let error = parse(text).unwrap_err();
    let mut shown = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        shown += &format!(": {inner}");
        cause = inner.source();
    }
    want.assert_eq(&shown);
}

const FULL: &str = r#"
name = "lab"
description = "everything at once"
base = { debian = "trixie" }
run = ["useradd x || true"]
warm = "import numpy"

[packages]
apt = ["python3", "g++-14", "libc6=2.41-12"]
pip = ["numpy==2.3.*", "uvicorn[standard]>=0.3"]
npm = ["@types/node@22.1.0", "typescript"]

[[files]]
content = "hello"
target = "/etc/motd"

[[files]]
source = "tool.sh"
target = "/usr/local/bin/tool"
mode = "0755"

[env]
LANG = "C.UTF-8"

[limits]
memory = "2G"
wall = "90s"
pids = 64

[languages]
python = "/usr/bin/python3"
"#;

#[test]
fn a_full_recipe_is_read() {
    let recipe = parse(FULL).unwrap();
    assert_eq!(recipe.base, Base::Debian { suite: "trixie".into() });
    assert_eq!(recipe.files[0].mode.bits(), 0o644);
    assert_eq!(recipe.files[1].mode.bits(), 0o755);
    assert_eq!(recipe.locate(Path::new("tool.sh")), Path::new("/recipes/tool.sh"));
    let limits = recipe.default_limits();
    assert_eq!((limits.memory_bytes, limits.wall.as_secs(), limits.pids), (2 << 30, 90, 64));
}

#[test]
fn layout_does_not_change_the_digest_but_meaning_does() {
    let recipe = parse(FULL).unwrap();
    let commented = format!("# a comment\n{FULL}");
    assert_eq!(parse(&commented).unwrap().digest(), recipe.digest());
    let changed = FULL.replace("90s", "91s");
    assert_ne!(parse(&changed).unwrap().digest(), recipe.digest());
}

#[test]
fn a_recipe_survives_json() {
    let recipe = parse(FULL).unwrap();
    let json = serde_json::to_string(&recipe).unwrap();
    let back: Recipe = serde_json::from_str(&json).unwrap();
    assert_eq!(back.digest(), recipe.digest());
}

#[test]
fn a_misspelled_key_is_refused() {
    check_error(
        "name = \"a\"\nbase = { debian = \"trixie\" }\n[limits]\nmemmory = \"2G\"\n",
        expect![[r#"
            the recipe `test.toml` is not valid: TOML parse error at line 4, column 1
              |
            4 | memmory = "2G"
              | ^^^^^^^
            unknown field `memmory`, expected one of `memory`, `cpu_millis`, `pids`, `disk`, `inodes`, `output`, `wall`, `cpu`, `open_files`
        "#]],
    );
}

#[test]
fn a_base_is_exactly_one_thing() {
    check_error(
        "name = \"a\"\nbase = { debian = \"trixie\", directory = \"x\" }\n",
        expect![[r#"
        the recipe `test.toml` is not valid: TOML parse error at line 2, column 8
          |
        2 | base = { debian = "trixie", directory = "x" }
          |        ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
        expected one of { debian = "suite" }, { oci = "layout", tag = "…" } and { directory = "path" }
    "#]],
    );
}

#[test]
fn apt_packages_need_a_debian_base() {
    check_error(
        "name = \"a\"\nbase = { directory = \"x\" }\n[packages]\napt = [\"git\"]\n",
        expect![[
            r#"in the recipe `a`, packages.apt is set, but the base is not Debian; apt packages need `base = { debian = "…" }`; put them into the image, or change the base"#
        ]],
    );
}

#[test]
fn what_could_be_an_option_or_a_path_is_refused() {
    let recipe = |part: &str| format!("name = \"a\"\nbase = {{ debian = \"trixie\" }}\n{part}\n");
    for part in [
        "packages.apt = [\"--force\"]",
        "packages.apt = [\"a b\"]",
        "packages.apt = [\"a,b\"]",
        "packages.pip = [\"-r/etc/passwd\"]",
        "packages.pip = [\"../evil\"]",
        "packages.pip = [\"x @ https://example.org/x.whl\"]",
        "packages.npm = [\"./evil\"]",
        "packages.npm = [\"git+ssh://host/x\"]",
        "packages.npm = [\"owner/repo\"]",
        "packages.npm = [\"--unsafe-perm\"]",
        "files = [{ content = \"\", target = \"/a/../../b\" }]",
        "files = [{ content = \"\", target = \"b\" }]",
        "files = [{ target = \"/b\" }]",
        "files = [{ content = \"\", target = \"/b\", mode = \"4755\" }]",
        "env = { \"A=B\" = \"\" }",
        "languages = { python = \"python3\" }",
        "limits = { pids = 0 }",
        "run = [\" \"]",
    ] {
        assert!(parse(&recipe(part)).is_err(), "{part}");
    }
    for name in ["", "Upper", "a/b", "..", "host", "-a", "a_b"] {
        let text = format!("name = \"{name}\"\nbase = {{ debian = \"trixie\" }}\n");
        assert!(parse(&text).is_err(), "{name}");
    }
    assert!(parse("name = \"a\"\nbase = { debian = \"--x\" }\n").is_err());
}

#[test]
fn a_tier_is_read_and_a_recipe_without_one_keeps_its_digest() {
    let plain = parse(FULL).unwrap();
    assert_eq!(plain.tier, None);
    assert!(!serde_json::to_string(&plain).unwrap().contains("tier"));
    let walled = parse(&FULL.replacen("warm =", "tier = \"gvisor\"\nwarm =", 1)).unwrap();
    assert_eq!(walled.tier, Some(Tier::GVISOR));
    assert_ne!(walled.digest(), plain.digest());
}

#[test]
fn a_tier_without_a_root_of_its_own_is_refused() {
    check_error(
        "name = \"a\"\nbase = { debian = \"trixie\" }\ntier = \"process\"",
        expect![[
            "in the recipe `a`, the tier is `process`; that tier has no root filesystem; omit \
             `tier`, or choose a stronger one"
        ]],
    );
}
