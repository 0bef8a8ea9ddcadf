//! Code that fails for want of a network says so.

use crate::harness::{Place, can_jail, can_use};

const OFF: &str = "hint: the sandbox has no network; ";

#[test]
fn a_failed_look_up_names_the_missing_network() {
    if !can_jail() {
        return;
    }
    let place = Place::new();
    let code = "import urllib.request as u; u.urlopen('https://example.com/')";
    let ran = place.run(&["run", "-c", code]);
    ran.expect_status(1).expect_words(&[OFF, "--allow HOST", "--network open"]);
    let document = place.run(&["run", "--json", "-c", code]).expect_status(1).json();
    assert_eq!(document["end"]["hint"]["code"], "no_network", "{document}");
    // Neither code that coped nor another failure is blamed on it.
    let coped = "import urllib.request as u\ntry: u.urlopen('https://example.com/')\n\
                 except OSError as error: print(error)";
    for code in [coped, "1/0"] {
        let ran = place.run(&["run", "-c", code]);
        assert!(!ran.stderr.contains(OFF), "{}", ran.stderr);
    }
}

#[test]
fn pip_without_a_network_leads_to_the_package_indexes() {
    if !can_use("python-data") {
        return;
    }
    let place = Place::new();
    let pip = "python3 -m pip install --break-system-packages --retries 0 idna==3.7";
    for pip in [pip, "python3 -m pip install idna==3.7"] {
        let args = ["exec", "--template", "python-data", "--", "sh", "-c", pip];
        place.run_with_templates(&args).expect_status(1).expect_words(&[OFF, "--network packages"]);
    }
    let args = ["run", "--template", "python-data", "--setup", pip, "-c", "1"];
    let ran = place.run_with_templates(&args);
    ran.expect_status(125).expect_words(&["setup failed", "--network packages"]);
    place.write(
        "install.py",
        format!("!{pip}\n# %%\nimport urllib.request as u\nu.urlopen('https://example.com/')\n"),
    );
    let ran = place.run_with_templates(&["cells", "install.py"]);
    ran.expect_status(1).expect_words(&[OFF, "--allow HOST"]);
}
