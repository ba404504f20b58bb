//! Numbers of lists as programs write them.

/// Returns a number in small Roman digits; beyond 3,999, and none, in Arabic ones.
pub fn roman(mut number: u32) -> String {
    const SIGNS: [(u32, &str); 13] = [
        (1000, "m"),
        (900, "cm"),
        (500, "d"),
        (400, "cd"),
        (100, "c"),
        (90, "xc"),
        (50, "l"),
        (40, "xl"),
        (10, "x"),
        (9, "ix"),
        (5, "v"),
        (4, "iv"),
        (1, "i"),
    ];
    if !(1..=3999).contains(&number) {
        return number.to_string();
    }
    let mut written = String::new();
    for (value, sign) in SIGNS {
        while number >= value {
            written.push_str(sign);
            number -= value;
        }
    }
    written
}

/// Returns a number in small letters: `z` is followed by `aa`, `ab` and so on. None is a digit.
pub fn letters(mut number: u32) -> String {
    if number == 0 {
        return "0".into();
    }
    let mut written = Vec::new();
    while number > 0 {
        number -= 1;
        written.push(letter(number % 26));
        number /= 26;
    }
    written.iter().rev().collect()
}

/// Returns a number in small letters: `z` is followed by `aa`, `bb` and so on, thirty times.
pub fn repeated_letters(number: u32) -> String {
    match number.checked_sub(1) {
        None => "0".into(),
        Some(before) => {
            let before = before % (26 * 30);
            std::iter::repeat_n(letter(before % 26), (before / 26 + 1) as usize).collect()
        }
    }
}

fn letter(number: u32) -> char {
    char::from_u32(u32::from(b'a') + number % 26).unwrap_or('a')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_in_letters_and_roman_digits() {
        assert_eq!(
            (roman(1994), roman(4000), roman(0)),
            ("mcmxciv".into(), "4000".into(), "0".into())
        );
        let of = |write: fn(u32) -> String| [0, 1, 26, 27, 53].map(write).join(" ");
        assert_eq!(of(letters), "0 a z aa ba");
        assert_eq!(of(repeated_letters), "0 a z aa aaa");
        assert_eq!(letters(u32::MAX), "mwlqkwu");
        assert!(repeated_letters(u32::MAX).len() <= 30);
    }
}
