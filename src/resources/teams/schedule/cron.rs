//! Cron expressions: five fields, of a minute, an hour, a day of the month, a month and a day of the week.

/// An expression. Each field is a set of bits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cron {
    minutes: u64,
    hours: u64,
    days: u64,
    months: u64,
    weekdays: u64,
    /// Whether the day of the month and that of the week are both restricted: either is enough then.
    is_either: bool,
}

/// The longest expression: each minute, hour, day and month by name.
pub const MAX_CRON: usize = 400;

/// A field: its name, and what it may be.
struct Field {
    name: &'static str,
    from: u8,
    to: u8,
    names: &'static [&'static str],
}

const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const WEEKDAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

const FIELDS: [Field; 5] = [
    Field { name: "minute", from: 0, to: 59, names: &[] },
    Field { name: "hour", from: 0, to: 23, names: &[] },
    Field { name: "day of the month", from: 1, to: 31, names: &[] },
    Field { name: "month", from: 1, to: 12, names: &MONTHS },
    // 7 is Sunday, as 0 is.
    Field { name: "day of the week", from: 0, to: WEEK, names: &WEEKDAYS },
];

/// The days of a week.
const WEEK: u8 = 7;

/// The days that each month has in some year.
const DAYS: [u8; 12] = [31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];

impl Cron {
    /// Parses an expression.
    ///
    /// # Errors
    /// What is wrong with it, as the end of a sentence.
    pub fn parse(text: &str) -> Result<Self, String> {
        let parts: Vec<&str> = text.split_ascii_whitespace().collect();
        if text.len() > MAX_CRON {
            return Err(format!("must have at most {MAX_CRON} characters"));
        }
        let [minute, hour, day, month, weekday] = parts[..] else {
            return Err("must have five fields: minute, hour, day of the month, month, day of \
                        the week"
                .into());
        };
        let sets = [minute, hour, day, month, weekday];
        let mut bits = [0; 5];
        for ((set, field), text) in bits.iter_mut().zip(&FIELDS).zip(sets) {
            *set = field.parse(text)?;
        }
        let [minutes, hours, days, months, weekdays] = bits;
        let is_either = !day.starts_with('*') && !weekday.starts_with('*');
        let cron = Cron { minutes, hours, days, months, weekdays, is_either };
        if !cron.has_any_day() {
            return Err("is never due: none of its months has such a day".into());
        }
        Ok(cron)
    }

    /// Whether there is a day at all that it matches.
    fn has_any_day(&self) -> bool {
        let first = self.days.trailing_zeros();
        let has_day = |(month, days): (usize, &u8)| {
            self.months & (1 << (month + 1)) != 0 && u32::from(*days) >= first
        };
        self.is_either || DAYS.iter().enumerate().any(has_day)
    }

    /// Whether it is due in this month, from 1 to 12.
    pub fn has_month(&self, month: i8) -> bool {
        self.months & (1 << month) != 0
    }

    /// Whether it is due on this day of a month, which is this one of a week, from 0 for Sunday.
    pub fn has_day(&self, day: i8, weekday: i8) -> bool {
        let (day, weekday) = (self.days & (1 << day) != 0, self.weekdays & (1 << weekday) != 0);
        if self.is_either { day || weekday } else { day && weekday }
    }

    /// Returns the first hour and minute of a day at which it is due, at or after these. The minute may
    /// be 60: of the next hour.
    pub fn next_in_day(&self, hour: i8, minute: i8) -> Option<(i8, i8)> {
        if self.hours & (1 << hour) != 0
            && let Some(minute) = first_from(self.minutes, minute)
        {
            return Some((hour, minute));
        }
        let hour = first_from(self.hours, hour + 1)?;
        Some((hour, first_from(self.minutes, 0)?))
    }
}

/// Returns the first of a set at or after this one.
fn first_from(set: u64, from: i8) -> Option<i8> {
    let rest = set & (u64::MAX << from);
    (rest != 0).then(|| rest.trailing_zeros() as i8)
}

impl Field {
    fn parse(&self, text: &str) -> Result<u64, String> {
        text.split(',').try_fold(0, |set, part| Ok(set | self.parse_part(part)?))
    }

    /// Parses `*`, `a` or `a-b`, each with or without `/step`.
    fn parse_part(&self, part: &str) -> Result<u64, String> {
        let (range, step) = match part.split_once('/') {
            Some((range, step)) => (range, Some(self.parse_step(step)?)),
            None => (part, None),
        };
        let (from, to) = if range == "*" {
            // Sunday is there once.
            (self.from, if self.to == WEEK { WEEK - 1 } else { self.to })
        } else if let Some((from, to)) = range.split_once('-') {
            (self.value(from)?, self.value(to)?)
        } else {
            let from = self.value(range)?;
            (from, if step.is_some() { self.to } else { from })
        };
        // A range of days may go over the end of the week.
        let is_week = self.to == WEEK;
        if from > to && !is_week {
            return Err(self.error(part, "ends before it begins"));
        }
        let end = if from > to { to + WEEK } else { to };
        let values = (from..=end).step_by(step.unwrap_or(1));
        let bit = |value: u8| if is_week { value % WEEK } else { value };
        Ok(values.fold(0, |set, value| set | 1 << bit(value)))
    }

    fn parse_step(&self, text: &str) -> Result<usize, String> {
        let step = digits(text).filter(|step| (1..=self.to).contains(step));
        let most = self.to;
        step.map(usize::from)
            .ok_or_else(|| self.error(text, &format!("is no step from 1 to {most}")))
    }

    fn value(&self, text: &str) -> Result<u8, String> {
        let lower = text.to_ascii_lowercase();
        if let Some(at) = self.names.iter().position(|name| *name == lower) {
            // Months are counted from 1, days of the week from 0.
            return Ok(u8::try_from(at).unwrap_or_default() + self.from);
        }
        let (from, to) = (self.from, self.to);
        digits(text)
            .filter(|value| (from..=to).contains(value))
            .ok_or_else(|| self.error(text, &format!("is not from {from} to {to}")))
    }

    fn error(&self, text: &str, what: &str) -> String {
        format!("{text:?} of the {} {what}", self.name)
    }
}

/// Parses a number of one or two digits.
fn digits(text: &str) -> Option<u8> {
    let is_number = matches!(text.len(), 1 | 2) && text.bytes().all(|b| b.is_ascii_digit());
    is_number.then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests;
