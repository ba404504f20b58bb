//! Canonical JSON for hashing: RFC 8785, the JSON Canonicalization Scheme. Equal values have the same
//! text: no whitespace, keys in the order of their UTF-16 code units, numbers as ECMAScript formats
//! them (so `1`, `1.0` and `1e0` are one value, as they are to most programs that read JSON).

use std::fmt::Write;

use serde_json::{Map, Number, Value};

/// Returns the canonical text of `value`.
pub fn canonical(value: &Value) -> String {
    let mut out = String::new();
    write_value(value, &mut out);
    out
}

fn write_value(value: &Value, out: &mut String) {
    match value {
        Value::Array(items) => {
            write_list(items, ['[', ']'], out, write_value);
        }
        Value::Object(fields) => {
            let fields = sorted(fields);
            write_list(&fields, ['{', '}'], out, |(key, value), out| {
                write_text(key, out);
                out.push(':');
                write_value(value, out);
            });
        }
        Value::Number(number) => write_number(number, out),
        Value::String(text) => write_text(text, out),
        Value::Bool(_) | Value::Null => out.push_str(&value.to_string()),
    }
}

fn write_list<T>(
    items: &[T],
    [open, close]: [char; 2],
    out: &mut String,
    write: impl Fn(&T, &mut String),
) {
    out.push(open);
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        write(item, out);
    }
    out.push(close);
}

/// Sorts by UTF-16 code units, which differs from the order of UTF-8 bytes beyond U+FFFF.
fn sorted(fields: &Map<String, Value>) -> Vec<(&String, &Value)> {
    let mut fields: Vec<_> = fields.iter().collect();
    fields.sort_by(|(a, _), (b, _)| a.encode_utf16().cmp(b.encode_utf16()));
    fields
}

/// `serde_json` escapes exactly what the scheme requires, and in the same form.
fn write_text(text: &str, out: &mut String) {
    out.push_str(&Value::from(text).to_string());
}

/// Formats a number as ECMAScript's `Number::toString` does: the fewest digits that parse back to the
/// same double, without an exponent from 1e-6 up to 1e21.
fn write_number(number: &Number, out: &mut String) {
    let double = number.as_f64().unwrap_or(0.0);
    if double == 0.0 {
        return out.push('0'); // Also for -0.
    }
    if double < 0.0 {
        out.push('-');
    }
    let (digits, exponent) = shortest(double.abs());
    let count = digits.len() as i32;
    match exponent {
        // All digits are before the point, perhaps followed by zeros.
        _ if (count - 1..21).contains(&exponent) => {
            out.push_str(&digits);
            out.extend(std::iter::repeat_n('0', (exponent + 1 - count) as usize));
        }
        0..21 => {
            let (whole, rest) = digits.split_at(exponent as usize + 1);
            out.extend([whole, ".", rest]);
        }
        -6..0 => {
            out.push_str("0.");
            out.extend(std::iter::repeat_n('0', (-exponent - 1) as usize));
            out.push_str(&digits);
        }
        _ => {
            let (first, rest) = digits.split_at(1);
            let point = if rest.is_empty() { "" } else { "." };
            let sign = if exponent < 0 { '-' } else { '+' };
            let exponent = exponent.unsigned_abs();
            write!(out, "{first}{point}{rest}e{sign}{exponent}")
                .expect("writing to a String does not fail");
        }
    }
}

/// Returns the digits of a positive number, without leading and trailing zeros, and the power of ten
/// of the first. Of two equally short and equally near candidates `serde_json` takes the even one, as
/// the scheme requires; Rust's own formatting does not.
fn shortest(double: f64) -> (String, i32) {
    let text = Value::from(double).to_string();
    let (mantissa, power) = text.split_once('e').unwrap_or((&text, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let all = [whole, fraction].concat();
    let digits = all.trim_start_matches('0');
    let leading_zeros = (all.len() - digits.len()) as i32;
    let power: i32 = power.parse().unwrap_or(0);
    let exponent = power + whole.len() as i32 - 1 - leading_zeros;
    (digits.trim_end_matches('0').to_string(), exponent)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn number(text: &str) -> String {
        canonical(&serde_json::from_str(text).unwrap())
    }

    /// Appendix B of the RFC: the text of each double.
    #[test]
    fn numbers_are_formatted_as_the_scheme_requires() {
        let table: [(u64, &str); 22] = [
            (0x0000000000000000, "0"),
            (0x8000000000000000, "0"),
            (0x0000000000000001, "5e-324"),
            (0x8000000000000001, "-5e-324"),
            (0x7fefffffffffffff, "1.7976931348623157e+308"),
            (0xffefffffffffffff, "-1.7976931348623157e+308"),
            (0x4340000000000000, "9007199254740992"),
            (0xc340000000000000, "-9007199254740992"),
            (0x4430000000000000, "295147905179352830000"),
            (0x44b52d02c7e14af5, "9.999999999999997e+22"),
            (0x44b52d02c7e14af6, "1e+23"),
            (0x44b52d02c7e14af7, "1.0000000000000001e+23"),
            (0x444b1ae4d6e2ef4e, "999999999999999700000"),
            (0x444b1ae4d6e2ef4f, "999999999999999900000"),
            (0x444b1ae4d6e2ef50, "1e+21"),
            (0x3eb0c6f7a0b5ed8c, "9.999999999999997e-7"),
            (0x3eb0c6f7a0b5ed8d, "0.000001"),
            (0x41b3de4355555553, "333333333.3333332"),
            (0x41b3de4355555554, "333333333.33333325"),
            (0x41b3de4355555555, "333333333.3333333"),
            (0xbecbf647612f3696, "-0.0000033333333333333333"),
            (0x43143ff3c1cb0959, "1424953923781206.2"),
        ];
        for (bits, expected) in table {
            let value = json!(f64::from_bits(bits));
            assert_eq!(canonical(&value), expected, "{bits:#x}");
        }
    }

    #[test]
    fn equal_numbers_have_the_same_text_in_any_notation() {
        for (text, expected) in [
            ("1.0", "1"),
            ("10e-1", "1"),
            ("-0.0", "0"),
            ("100", "100"),
            ("1e2", "100"),
            ("0.10", "0.1"),
            ("18446744073709551615", "18446744073709552000"),
            ("-9223372036854775808", "-9223372036854776000"),
            ("4.50", "4.5"),
            ("2e-3", "0.002"),
            ("333333333.33333329", "333333333.3333333"),
            ("1E30", "1e+30"),
        ] {
            assert_eq!(number(text), expected, "{text}");
        }
    }

    /// The example of the RFC, section 3.2.3.
    #[test]
    fn keys_are_in_the_order_of_their_utf_16_code_units() {
        let value = json!({
            "\u{20ac}": "Euro Sign", "\r": "Carriage Return", "\u{fb33}": "Hebrew Letter Dalet",
            "1": "One", "\u{1f600}": "Emoji", "\u{80}": "Control", "\u{f6}": "Latin Small o",
        });
        let text = canonical(&value);
        let order = ["Carriage", "One", "Control", "Latin", "Euro", "Emoji", "Hebrew"];
        let places: Vec<_> = order.iter().map(|word| text.find(word).unwrap()).collect();
        assert!(places.is_sorted(), "{text}");
    }

    #[test]
    fn values_that_differ_in_the_order_of_keys_alone_have_one_canonical_form() {
        let value = json!({"b": [{"z": 1.0, "y": null}, true], "a": {"d": "\u{1}\n\"/é", "c": 1}});
        let text = r#"{"a":{"c":1,"d":"\u0001\n\"/é"},"b":[{"y":null,"z":1},true]}"#;
        assert_eq!(canonical(&value), text);
        assert_eq!(canonical(&json!([])), "[]");
        assert_eq!(canonical(&json!({})), "{}");
    }
}
