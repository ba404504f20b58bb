//! What becomes of wakes whose posts were given up.

use super::*;

#[test]
fn what_was_given_up_stays_so_when_its_agent_is_resumed_until_a_url_is_set() {
    let fixture = Fixture::new();
    let ann = crew(&fixture);
    mail(&fixture, ann);
    for _ in 0..26 {
        run(&fixture, 503);
        fixture.pass_secs(3600);
    }
    let failed = || {
        let all = events(&fixture);
        all.iter().filter(|event| event.event_type == EventType::TeamRunFailed).count()
    };
    assert_eq!((jobs(&fixture).len(), failed()), (0, 1));
    let resume = || {
        let (begin, end) = (Fixture::input(json!({})), Fixture::input(json!({})));
        fixture.write(pausing::pause_member, ann, begin.unwrap()).unwrap();
        fixture.write(pausing::resume_member, ann, end.unwrap()).unwrap();
    };
    resume();
    mail(&fixture, ann);
    assert_eq!(run(&fixture, 503), 1, "what is new is posted, and what was given up is not");
    for _ in 0..26 {
        fixture.pass_secs(3600);
        run(&fixture, 503);
    }
    assert_eq!((wakes(&fixture).len(), failed()), (2, 2));
    set_url(&fixture, ann, json!("https://agent.test/other"));
    resume();
    assert_eq!(run(&fixture, 200), 2);
    assert!(wakes(&fixture).is_empty() && jobs(&fixture).is_empty());
}
