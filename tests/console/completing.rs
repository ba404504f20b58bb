//! The names that the editor completes, where the page has no room for all.

use crate::html;
use crate::server::Running;

#[test]
fn promptlets_that_a_page_has_no_room_for_are_asked_for() {
    let server = Running::new();
    server.registry();
    server.publish("prompt", "notes", "1.0.0", "Hello.");
    server.publish("promptlet", "tone", "1.0.0", "Calm.");
    let ada = server.signed_in("ada@acme.test");
    let more = || {
        let page = ada.get("/o/acme/prompts/main/notes/edit");
        let tags = html::tags(&page.text);
        let list = tags.into_iter().find(|tag| tag.get("id") == Some("promptlets")).unwrap();
        list.get("data-more").map(String::from)
    };
    assert_eq!(more(), None, "the page has all");
    let long = |number: usize| format!("p{number:02}{}", "x".repeat(125));
    for number in 0..61 {
        server.publish("promptlet", &long(number), "1.0.0", "Text.");
    }
    let path = more().unwrap();
    let found = |typed: &str| {
        let page = ada.get(&format!("{path}&q={typed}"));
        let tags = html::tags(&page.text);
        let values = tags.iter().filter_map(|tag| tag.get("data-value").map(String::from));
        values.collect::<Vec<_>>()
    };
    // Prompts are not imported.
    assert_eq!((found("ton"), found("notes")), (vec!["tone".to_string()], Vec::new()));
    assert_eq!(found("p60"), [long(60)]);
}
