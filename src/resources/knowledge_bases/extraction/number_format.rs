//! What formats of numbers show, in Office Open XML: dates are stored as numbers.

/// What a number is shown as.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shown {
    pub date: bool,
    pub time: bool,
    /// Hours go on beyond 24.
    pub elapsed: bool,
}

/// What formats show that every file has, without declaring them.
pub fn built_in(id: &str) -> Shown {
    let of = |date, time, elapsed| Shown { date, time, elapsed };
    match id.parse() {
        Ok(14..=17 | 27..=31 | 36 | 50..=54 | 57 | 58) => of(true, false, false),
        Ok(22) => of(true, true, false),
        Ok(18..=21 | 32..=35 | 45 | 47 | 55 | 56) => of(false, true, false),
        Ok(46) => of(false, true, true),
        _ => Shown::default(),
    }
}

/// What a format shows, by its code: `yyyy-mm-dd`, `[h]:mm`, `0.00" days"`.
pub fn shown_by(code: &str) -> Shown {
    let (mut shown, mut has_month) = (Shown::default(), false);
    let mut chars = code.chars();
    while let Some(c) = chars.next() {
        match c {
            '"' => _ = chars.find(|c| *c == '"'),
            '\\' | '_' | '*' => _ = chars.next(),
            '[' => {
                let inside: String = chars.by_ref().take_while(|c| *c != ']').collect();
                let of_time = |c| matches!(c, 'h' | 'H' | 'm' | 'M' | 's' | 'S');
                shown.elapsed |= !inside.is_empty() && inside.chars().all(of_time);
                shown.time |= shown.elapsed;
            }
            'y' | 'Y' | 'd' | 'D' => shown.date = true,
            'h' | 'H' | 's' | 'S' => shown.time = true,
            'm' | 'M' => has_month = true,
            // Another format, for negative numbers; `General` is a number.
            ';' | 'G' => break,
            _ => {}
        }
    }
    // `m` is the minute beside an hour or second.
    shown.date |= has_month && !shown.time;
    shown
}
