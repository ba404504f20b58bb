//! Names and texts whose keys rise, fall or are scattered, short and long.

use crate::dice::Dice;

/// How the names of a desk follow each other.
#[derive(Clone, Copy)]
pub enum Shape {
    Rising,
    Falling,
    Scattered,
    Long,
    Short,
}

impl Shape {
    pub fn any(dice: &mut Dice) -> Self {
        let all = [Shape::Rising, Shape::Falling, Shape::Scattered, Shape::Long, Shape::Short];
        all[dice.below(all.len() as u64) as usize]
    }

    /// The nth name, valid for agents, artifacts and variables. The tag is what others do not use.
    pub fn name(self, tag: &str, n: u64) -> String {
        match self {
            Shape::Rising => format!("r{n:06}_{tag}"),
            Shape::Falling => format!("f{:06}_{tag}", 999_999 - n),
            Shape::Scattered => format!("s{:016x}_{tag}_{n}", scattered(n)),
            Shape::Long => format!("{}_{n}_{tag}", "l".repeat(40)),
            Shape::Short => format!("s{tag}{n}"),
        }
    }

    /// The version after `count` others of an artifact.
    pub fn version(self, count: u64) -> String {
        match self {
            Shape::Falling => format!("1.{}.0", 1_000_000 - count),
            Shape::Scattered => format!("{}.{count}.0", scattered(count) % 1_000),
            Shape::Long => format!("1.{}.0", u64::MAX / 2 + count),
            Shape::Rising | Shape::Short => format!("1.{count}.0"),
        }
    }
}

/// Numbers without an order.
fn scattered(n: u64) -> u64 {
    let mut mixed = n.wrapping_add(0x9e37_79b9_7f4a_7c15).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed ^= mixed >> 31;
    mixed.wrapping_mul(0x94d0_49bb_1331_11eb)
}

/// A text: mostly short, some of some kilobytes, few so large that they are written apart from others.
pub fn text(dice: &mut Dice) -> String {
    let length = match dice.below(400) {
        0 => 90_000,
        1..8 => 20_000,
        8..60 => 2_000,
        _ => 20 + dice.below(150),
    };
    let word = format!("{:08x} ", dice.below(u64::MAX));
    let mut text = word.repeat(1 + length as usize / word.len());
    text.truncate(length as usize);
    text
}
