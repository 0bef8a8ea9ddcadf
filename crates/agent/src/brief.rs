//! The part of the prompt that a run's owner decides: skills and instructions.
//!
//! It stands in the system prompt after the words that all runs share and before the datasets,
//! so that runs with the same brief share a prefix in the provider's cache.

use belljar_journal::event::Brief;

use crate::skill::main_file;

/// These words are part of transcripts and recordings: a change of them is a change of every
/// prompt with skills.
const SKILLS: &str = "\
# Skills

Each skill below is a folder in the sandbox. If the question touches its subject, read its \
SKILL.md with `read_file` before you write code, and follow it.";

const INSTRUCTIONS: &str = "\
# Instructions for this run

They come from the owner of the run. Follow them where they do not contradict the rules above.";

/// Writes the part of the system prompt; empty: there is nothing to say.
pub(crate) fn describe(brief: &Brief) -> String {
    let mut parts = Vec::new();
    if !brief.skills.is_empty() {
        let mut skills: Vec<_> = brief.skills.iter().collect();
        skills.sort_unstable_by_key(|skill| &skill.name);
        let lines = skills.iter().map(|skill| {
            format!("- `{}` ({}): {}", skill.name, main_file(&skill.name), skill.description)
        });
        parts.push(format!("{SKILLS}\n\n{}", lines.collect::<Vec<_>>().join("\n")));
    }
    if let Some(instructions) = &brief.instructions {
        parts.push(format!("{INSTRUCTIONS}\n\n{}", instructions.trim()));
    }
    parts.join("\n\n")
}

#[cfg(test)]
mod tests {
    use belljar_journal::BlobRef;
    use belljar_journal::event::Skill;
    use expect_test::expect;

    use super::*;

    fn skill(name: &str) -> Skill {
        let description = format!("About {name}.");
        Skill { name: name.into(), description, archive: BlobRef::of(name.as_bytes()) }
    }

    #[test]
    fn skills_come_by_name_and_before_instructions() {
        let brief = Brief {
            skills: vec![skill("sales"), skill("billing")],
            instructions: Some("Amounts are in euros.\n".into()),
            ..Brief::default()
        };
        expect![[r#"
            # Skills

            Each skill below is a folder in the sandbox. If the question touches its subject, read its SKILL.md with `read_file` before you write code, and follow it.

            - `billing` (/mnt/skills/billing/SKILL.md): About billing.
            - `sales` (/mnt/skills/sales/SKILL.md): About sales.

            # Instructions for this run

            They come from the owner of the run. Follow them where they do not contradict the rules above.

            Amounts are in euros."#]]
        .assert_eq(&describe(&brief));
        let mut turned = brief.clone();
        turned.skills.reverse();
        assert_eq!(describe(&turned), describe(&brief));
        assert_eq!(describe(&Brief::default()), "");
    }
}
