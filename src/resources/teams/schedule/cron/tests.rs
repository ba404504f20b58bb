//! Expressions that are read and refused.

use super::*;

#[test]
fn what_is_no_expression_says_why() {
    for (text, why) in [
        ("", "five fields"),
        ("* * * *", "five fields"),
        ("* * * * * *", "five fields"),
        ("@daily", "five fields"),
        ("60 * * * *", "\"60\" of the minute is not from 0 to 59"),
        ("* 24 * * *", "\"24\" of the hour is not from 0 to 23"),
        ("* * 0 * *", "\"0\" of the day of the month is not from 1 to 31"),
        ("* * * 13 *", "\"13\" of the month is not from 1 to 12"),
        ("* * * * 8", "\"8\" of the day of the week is not from 0 to 7"),
        ("* * * mo *", "\"mo\" of the month"),
        ("5-1 * * * *", "\"5-1\" of the minute ends before it begins"),
        ("0 0 * nov-feb *", "\"nov-feb\" of the month ends before it begins"),
        ("*/0 * * * *", "\"0\" of the minute is no step from 1 to 59"),
        ("*/ * * * *", "\"\" of the minute is no step"),
        ("1, * * * *", "\"\" of the minute is not"),
        ("+1 * * * *", "\"+1\" of the minute is not"),
        ("L * * * *", "\"L\" of the minute is not"),
        ("0 0 30 2 *", "is never due"),
        ("0 0 31 4,6,9,11,feb *", "is never due"),
    ] {
        let refused = Cron::parse(text).unwrap_err();
        assert!(refused.contains(why), "{text}: {refused}");
    }
    assert!(Cron::parse(&"1,".repeat(300)).unwrap_err().contains("at most 400"));
}

#[test]
fn the_same_set_has_several_names() {
    for (one, other) in [
        ("* * * * *", "0-59 0-23 1-31 1-12 0-6"),
        ("0 9 * * MON-FRI", "0 9 * * 1,2,3,4,5"),
        ("0 9 * * sun", "0 9 * * 7"),
        ("0 0 1 jan,Jul *", "0 0 1 1/6 *"),
        ("*/20 * * * *", "0,20,40 * * * *"),
        ("5/20 * * * *", "5,25,45 * * * *"),
        ("10-30/10 * * * *", "10,20,30 * * * *"),
        ("  0   9 * * *  ", "00 09 * * *"),
        // Over the end of the week.
        ("0 9 * * sat-sun", "0 9 * * 0,6"),
        ("0 9 * * fri-mon", "0 9 * * 0,1,5,6"),
        ("0 9 * * fri-mon/2", "0 9 * * 0,5"),
        ("0 9 * * 6-0", "0 9 * * 6-7"),
        ("0 9 * * 7-2", "0 9 * * 0-2"),
        ("0 9 * * 5-7", "0 9 * * fri,sat,sun"),
    ] {
        let [one, other] = [one, other].map(|text| Cron::parse(text).unwrap());
        let days = |cron: &Cron| (cron.minutes, cron.hours, cron.days, cron.months, cron.weekdays);
        assert_eq!(days(&one), days(&other));
    }
}

#[test]
fn either_day_is_enough_if_both_are_restricted() {
    let either = Cron::parse("0 0 13 * fri").unwrap();
    assert!(either.has_day(13, 1) && either.has_day(12, 5) && !either.has_day(12, 1));
    let both = Cron::parse("0 0 */2 * fri").unwrap();
    assert!(both.has_day(13, 5) && !both.has_day(13, 1) && !both.has_day(12, 5));
    // Of an impossible day the other is left.
    assert!(Cron::parse("0 0 30 2 fri").is_ok());
}
