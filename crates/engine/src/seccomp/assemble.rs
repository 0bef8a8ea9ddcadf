//! From a policy to a classic BPF program.
//!
//! Calls are found by a balanced search over their numbers. Besides being quick
//! to run, that keeps installing cheap: the kernel walks the program once for
//! every number to learn which calls need no filter at all.

use belljar_sys::seccomp::Instruction;

use super::{Policy, Rule, Verdict, errno, numbers};

const LOAD: u16 = 0x20;
const AND: u16 = 0x54;
const JUMP: u16 = 0x05;
const JUMP_EQUAL: u16 = 0x15;
const JUMP_AT_LEAST: u16 = 0x35;
const RETURN: u16 = 0x06;

const OFFSET_NUMBER: u32 = 0;
const OFFSET_ARCH: u32 = 4;
const OFFSET_ARGS: u32 = 16;

const ARCH_X86_64: u32 = 0xc000_003e;
/// Numbers from here on belong to the x32 interface.
const X32: u32 = 0x4000_0000;

const RET_KILL_PROCESS: u32 = 0x8000_0000;
const RET_ERRNO: u32 = 0x0005_0000;
const RET_ALLOW: u32 = 0x7fff_0000;

fn op(code: u16, operand: u32) -> Instruction {
    Instruction { code, jump_true: 0, jump_false: 0, operand }
}

fn branch(code: u16, operand: u32, jump_true: u8, jump_false: u8) -> Instruction {
    Instruction { code, jump_true, jump_false, operand }
}

fn answer(verdict: Verdict) -> Instruction {
    op(
        RETURN,
        match verdict {
            Verdict::Allow => RET_ALLOW,
            Verdict::Errno(errno) => RET_ERRNO | u32::from(errno),
            Verdict::Kill => RET_KILL_PROCESS,
        },
    )
}

/// Assembles the program of a policy.
pub fn assemble(policy: &Policy) -> Vec<Instruction> {
    let mut program = vec![
        op(LOAD, OFFSET_ARCH),
        branch(JUMP_EQUAL, ARCH_X86_64, 1, 0),
        answer(Verdict::Kill),
        op(LOAD, OFFSET_NUMBER),
        branch(JUMP_AT_LEAST, X32, 0, 1),
        answer(Verdict::Kill),
    ];
    program.extend(search(&segments(policy)));
    program
}

/// Runs of numbers with one rule, each by its first number; the first is 0.
pub(super) fn segments(policy: &Policy) -> Vec<(u32, Rule)> {
    let unknown = Rule::Now(Verdict::Errno(errno::NOSYS));
    let mut segments: Vec<(u32, Rule)> = vec![(0, unknown)];
    let mut add = |first: u32, rule: Rule| match segments.last_mut() {
        Some((_, last)) if *last == rule => {}
        Some((start, last)) if *start == first => *last = rule,
        _ => segments.push((first, rule)),
    };
    let mut next = 0;
    for &(number, _) in numbers::TABLE {
        if number > next {
            add(next, unknown);
        }
        add(number, policy.rule(number));
        next = number + 1;
    }
    add(next, unknown);
    segments
}

/// A search among `segments`, the number being in the accumulator.
fn search(segments: &[(u32, Rule)]) -> Vec<Instruction> {
    if let [(_, rule)] = segments {
        return decide(*rule);
    }
    let (low, high) = segments.split_at(segments.len() / 2);
    let left = search(low);
    // A conditional jump reaches 255 instructions, a plain one any distance.
    let mut code = match u8::try_from(left.len()) {
        Ok(near) => vec![branch(JUMP_AT_LEAST, high[0].0, near, 0)],
        Err(_) => {
            let far = u32::try_from(left.len()).unwrap_or(u32::MAX);
            vec![branch(JUMP_AT_LEAST, high[0].0, 0, 1), op(JUMP, far)]
        }
    };
    code.extend(left);
    code.extend(search(high));
    code
}

/// The code of one rule; every path through it returns.
fn decide(rule: Rule) -> Vec<Instruction> {
    let (arg, mask, cases, otherwise) = match rule {
        Rule::Now(verdict) => return vec![answer(verdict)],
        Rule::Switch { arg, mask, cases, otherwise } => (arg, mask, cases, otherwise),
    };
    // Little endian: the low half comes first.
    let mut code = vec![op(LOAD, OFFSET_ARGS + 8 * u32::from(arg))];
    if mask != u32::MAX {
        code.push(op(AND, mask));
    }
    // Cases that look at a further argument carry their code with them.
    let nested = || cases.iter().filter(|(_, rule)| matches!(rule, Rule::Switch { .. }));
    let mut done: Vec<Rule> = Vec::new();
    for &(_, rule) in nested() {
        if done.contains(&rule) {
            continue;
        }
        done.push(rule);
        let then = decide(rule);
        let skip = u8::try_from(then.len()).unwrap_or(u8::MAX);
        let values: Vec<u32> =
            nested().filter(|(_, other)| *other == rule).map(|&(value, _)| value).collect();
        // Values with the same code: all but the last jump over the comparisons left.
        for (index, &value) in values.iter().enumerate() {
            let left = u8::try_from(values.len() - 1 - index).unwrap_or(u8::MAX);
            code.push(branch(JUMP_EQUAL, value, left, if left == 0 { skip } else { 0 }));
        }
        code.extend(then);
    }
    // The others jump to an answer that they share with their like.
    let settled: Vec<(u32, Verdict)> = cases
        .iter()
        .filter_map(|&(value, rule)| match rule {
            Rule::Now(verdict) => Some((value, verdict)),
            Rule::Switch { .. } => None,
        })
        .collect();
    let mut answers: Vec<Verdict> = Vec::new();
    for &(_, verdict) in &settled {
        if !answers.contains(&verdict) {
            answers.push(verdict);
        }
    }
    for (index, &(value, verdict)) in settled.iter().enumerate() {
        let at = answers.iter().position(|known| *known == verdict).unwrap_or(0);
        // Over the cases that are left, the default, and the answers before.
        let distance = settled.len() - index - 1 + 1 + at;
        code.push(branch(JUMP_EQUAL, value, u8::try_from(distance).unwrap_or(u8::MAX), 0));
    }
    code.push(answer(otherwise));
    code.extend(answers.into_iter().map(answer));
    code
}
