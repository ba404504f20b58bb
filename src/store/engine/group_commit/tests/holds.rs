//! Attempts that hold their lane: the others of it wait, and no other lane does.

use super::*;

const HOLDER: Terms = Terms { budget: Budget::FULL, on_conflict: OnConflict::HoldLane };
const OTHER_LANE: Lane = [1; 16];

/// An attempt of the first lane that tells when it runs, and then waits until it may go on; it writes
/// what it has seen.
fn holder(
    log: &Log,
    answer: &Sender<(usize, AttemptOutcome)>,
    may_go_on: &'static str,
) -> Box<dyn Attempt> {
    let (log, answer) = (log.clone(), answer.clone());
    let log_of = log.clone();
    let run = move |reader: &dyn Reader| {
        log_of.add("holder runs".into());
        log_of.wait_for(may_go_on);
        let mut has_held = false;
        reader.get(HOLD, b"", &mut |_| {
            has_held = true;
            Ok(())
        })?;
        Ok(one(&format!("saw {} {has_held}", keys(reader).len())))
    };
    Box::new(Try { number: 9, name: "holder", run, lane: Lane::default(), log, answer })
}

fn light(
    log: &Log,
    answer: &Sender<(usize, AttemptOutcome)>,
    name: &'static str,
    lane: Lane,
) -> Box<dyn Attempt> {
    let (log, answer) = (log.clone(), answer.clone());
    Box::new(Try { number: 0, name, run: move |_: &dyn Reader| Ok(one(name)), lane, log, answer })
}

#[test]
fn others_of_a_held_lane_wait_until_its_commit_and_other_lanes_do_not() {
    let (group, log) = scripted(&[], &[]);
    let (answer, answers) = channel();
    std::thread::scope(|scope| {
        scope.spawn(|| group.submit(holder(&log, &answer, "go on"), HOLDER).unwrap());
        log.wait_for("holder runs");
        group.submit(light(&log, &answer, "same", Lane::default()), LIGHT).unwrap();
        // In a table of its own, which the holder has not read.
        let elsewhere = |_: &dyn Reader| {
            let mut writes = WriteBatch::default();
            writes.add("u", Vec::new(), WriteOp::Put(Vec::new()));
            Ok(writes)
        };
        let (log_of, answer) = (log.clone(), answer.clone());
        let (number, name, lane, run) = (1, "other", OTHER_LANE, elsewhere);
        let other = Try { number, name, run, lane, log: log_of, answer };
        group.submit(Box::new(other), LIGHT).unwrap();
        log.wait_for("other answered");
        log.add("go on".into());
    });
    drop((group, answer));
    assert!(answers.iter().all(|(_, end)| matches!(end, AttemptOutcome::Completed(Ok(())))));
    let order: Vec<_> = log.lines().into_iter().filter(|line| line.ends_with("answered")).collect();
    assert_eq!(order, ["other answered", "holder answered", "same answered"]);
}

#[test]
fn a_lane_is_held_once_what_is_being_committed_of_it_can_be_seen() {
    let (group, log) = scripted(&[], &[]);
    let (answer, answers) = channel();
    hold_writer(&group, &log, &answer);
    std::thread::scope(|scope| {
        scope.spawn(|| group.submit(holder(&log, &answer, "holder runs"), HOLDER).unwrap());
        log.add("hold no longer".into());
    });
    while let Ok((number, end)) = answers.recv() {
        assert!(matches!(end, AttemptOutcome::Completed(Ok(()))));
        if number == 9 {
            break;
        }
    }
    assert_eq!(keys(&*group.snapshot()), ["saw 0 true"]);
}

#[test]
fn a_write_of_another_lane_gives_a_holder_back_and_its_lane_goes_on() {
    let (group, log) = scripted(&[], &[]);
    let (answer, answers) = channel();
    std::thread::scope(|scope| {
        scope.spawn(|| group.submit(holder(&log, &answer, "go on"), HOLDER).unwrap());
        log.wait_for("holder runs");
        group.submit(light(&log, &answer, "other", OTHER_LANE), LIGHT).unwrap();
        group.submit(light(&log, &answer, "same", Lane::default()), LIGHT).unwrap();
        log.wait_for("other answered");
        log.add("go on".into());
    });
    drop((group, answer));
    let given_back = |(number, end): &(usize, AttemptOutcome)| {
        *number == 9 && matches!(end, AttemptOutcome::GivenBack(GivenBack::Conflict))
    };
    assert_eq!(answers.iter().filter(given_back).count(), 1);
    assert!(log.lines().contains(&"same answered".to_string()));
}

#[test]
fn a_holder_that_is_refused_or_panics_holds_nothing_up() {
    let (group, log) = scripted(&[], &[]);
    for (_, run) in [REFUSE, PANIC] {
        let (answer, answers) = channel();
        let attempt = |name, run: Run| {
            let (log, answer) = (log.clone(), answer.clone());
            Box::new(Try { number: 0, name, run, lane: Lane::default(), log, answer })
        };
        group.submit(attempt("holder", run), HOLDER).unwrap();
        group.submit(attempt("a", WRITE_A.1), LIGHT).unwrap();
        group.submit(attempt("holder", WRITE_B.1), HOLDER).unwrap();
        drop(answer);
        let ends: Vec<_> = answers.iter().take(3).collect();
        let is_ok =
            |(_, end): &&(usize, AttemptOutcome)| matches!(end, AttemptOutcome::Completed(Ok(())));
        assert_eq!(ends.iter().filter(is_ok).count(), 2);
    }
}
