//! Classes of a pattern that take long to compile.
//!
//! Where case does not matter, each class is extended by the other case of each of its characters. For
//! one of most of Unicode that takes up to milliseconds, and `[!-\u{10FFFF}]` is short. What is compiled
//! has a limit of its size, but that is measured afterwards.

use regex_syntax::ast::parse::Parser;
use regex_syntax::ast::{
    Ast, ClassPerl, ClassPerlKind, ClassSetBinaryOp, ClassSetItem, Flag, Flags, GroupKind, Visitor,
    visit,
};

/// Such classes of all patterns of a policy in which case does not matter: more than those have that
/// are meant. They take up to 4 ms each, whenever a pattern is compiled.
pub const MAX_CLASSES: usize = 16;

/// A range of more characters than this is wide: twice as many as Latin, Greek and Cyrillic have.
const WIDE: u32 = 0x1000;

/// Returns how many such classes a pattern has; 0 if case matters everywhere, or it is no regular
/// expression.
pub fn count(pattern: &str) -> usize {
    let Ok(parsed) = Parser::new().parse(pattern) else { return 0 };
    let Ok(found) = visit(&parsed, Found::default());
    if found.ignores_case { found.wide } else { 0 }
}

/// What a pattern has.
#[derive(Default)]
struct Found {
    ignores_case: bool,
    wide: usize,
}

impl Found {
    fn add_flags(&mut self, flags: &Flags) {
        self.ignores_case |= flags.flag_state(Flag::CaseInsensitive) == Some(true);
    }
}

fn is_wide(class: &ClassPerl) -> bool {
    class.negated || class.kind == ClassPerlKind::Word
}

impl Visitor for Found {
    type Output = Found;
    type Err = std::convert::Infallible;

    fn finish(self) -> Result<Found, Self::Err> {
        Ok(self)
    }

    fn visit_pre(&mut self, ast: &Ast) -> Result<(), Self::Err> {
        match ast {
            Ast::Flags(set) => self.add_flags(&set.flags),
            Ast::Group(group) => {
                if let GroupKind::NonCapturing(flags) = &group.kind {
                    self.add_flags(flags);
                }
            }
            Ast::ClassUnicode(_) => self.wide += 1,
            Ast::ClassPerl(class) => self.wide += usize::from(is_wide(class)),
            _ => {}
        }
        Ok(())
    }

    fn visit_class_set_item_pre(&mut self, item: &ClassSetItem) -> Result<(), Self::Err> {
        let is_wide = match item {
            // What is in it may be everything but a character.
            ClassSetItem::Unicode(_) | ClassSetItem::Bracketed(_) => true,
            ClassSetItem::Ascii(class) => class.negated,
            ClassSetItem::Perl(class) => is_wide(class),
            ClassSetItem::Range(range) => {
                u32::from(range.end.c).saturating_sub(u32::from(range.start.c)) > WIDE
            }
            _ => false,
        };
        self.wide += usize::from(is_wide);
        Ok(())
    }

    fn visit_class_set_binary_op_pre(&mut self, _: &ClassSetBinaryOp) -> Result<(), Self::Err> {
        self.wide += 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wide_classes_are_counted_where_case_does_not_matter() {
        let wide = [
            r"\p{Any}",
            r"[!-\u{10FFFF}]",
            r"\w",
            r"\S",
            r"[\W\d]",
            r"[^\pL]",
            r"[[^a]\d]",
            "[^0[^a]]",
            r"[\d[^a]]",
            "[[^a]0]",
            "[0[^a]]",
            r"[[:^alpha:]\d]",
            r"[\s[^a]]",
            "[a-z&&b]",
        ];
        for class in wide {
            for pattern in
                [format!("(?i)x{class}"), format!("{class}(?s-m:(?i:x))"), format!("a(?xi){class}")]
            {
                assert!(count(&pattern) >= 1, "{pattern}");
            }
            for flags in ["", "(?-i)", "(?s)"] {
                assert_eq!(count(&format!("{flags}{class}")), 0, "{class}");
            }
        }
        for narrow in [r"[a-z_]", r"\d", r"\s", ".", "[^a]", "[[:alpha:]]"] {
            assert_eq!(count(&format!("(?i){narrow}")), 0, "{narrow}");
        }
        assert_eq!(count("(?i)(("), 0, "it is refused by others");
    }

    /// Whatever passes takes little time: the longest patterns of every class that is not counted.
    #[test]
    fn what_is_not_counted_is_compiled_soon() {
        for class in
            ["[^a]", r"[^\d]", r"[^\s]", "[^a-z]", "[[:alpha:]]", r"\d", ".", "[a-\u{1000}]"]
        {
            let pattern = format!("(?i){}", class.repeat(1_990 / class.chars().count()));
            assert_eq!(count(&pattern), 0, "{class}");
            let begun = std::time::Instant::now();
            let _ = regex::RegexBuilder::new(&pattern).size_limit(1).build();
            // Hundreds of wide classes take seconds, here without optimization ten times that.
            assert!(begun.elapsed().as_secs() < 20, "{class} took {:?}", begun.elapsed());
        }
    }
}
